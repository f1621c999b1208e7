package proc

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// EnvPrefix begins the names of the variables that Coppice sets itself. They cannot be declared,
// so that no agent can be given the identity of another one.
const EnvPrefix = "COPPICE_"

// inherited lists the variables that an agent gets from the environment of this program without
// being declared. Programs need them to find their files, the user and the language. None may be
// a secret.
var inherited = []string{
	"PATH", "HOME", "LANG", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "XDG_RUNTIME_DIR", EnvFake,
}

// localePrefix begins the names of variables that are inherited, too.
const localePrefix = "LC_"

// Variables that give an agent its identity and the way to its daemon. A variable whose value
// would be empty is not set.
const (
	EnvAgent       = EnvPrefix + "AGENT"       // path of the agent
	EnvIncarnation = EnvPrefix + "INCARNATION" // number of the incarnation
	EnvSocket      = EnvPrefix + "SOCKET"      // socket of its daemon
	EnvToken       = EnvPrefix + "TOKEN"       // proves that a caller is this incarnation
	EnvFiles       = EnvPrefix + "FILES"       // directory of the files of runtime.Launch, if it has some
)

// EnvFake is set only below a run with fakes of command lines, and tells these what they play.
const EnvFake = EnvPrefix + "FAKE"

// Self holds the values of the variables that an incarnation gets about itself.
type Self struct {
	Agent       string
	Incarnation uint64
	Socket      string
	Token       string
}

// Environ returns the complete environment of an incarnation, sorted. Declared variables
// override the inherited ones (and LC_*), and those of self override both. Declared names with
// EnvPrefix are left out.
func Environ(declared map[string]string, self Self) []string {
	return environ(os.Environ(), declared, self)
}

// WithIncarnation returns an environment made by Environ for another incarnation.
func WithIncarnation(env []string, incarnation uint64, token string) []string {
	env = slices.Clone(env)
	for i, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case EnvIncarnation:
			env[i] = name + "=" + strconv.FormatUint(incarnation, 10)
		case EnvToken:
			env[i] = name + "=" + token
		}
	}
	return env
}

// Inherited returns the names of the variables that Environ takes from the environment of this program, if they are set
// there.
func Inherited(declared map[string]string) (names []string) {
	own := slices.Clone(inherited)
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, localePrefix) {
			own = append(own, name)
		}
	}
	for _, name := range own {
		if _, is := declared[name]; !is {
			names = append(names, name)
		}
	}
	return names
}

// Move returns an environment that a program on another machine has made by Environ with what this machine has of the
// variables that were inherited there, which names has. None means that they are not known, and changes nothing. The
// others stay in their order.
func Move(env, names []string) []string { return move(os.Environ(), env, names) }

func move(parent, env, names []string) []string {
	if len(names) == 0 {
		return env
	}
	here := make(map[string]string)
	for _, kv := range parent {
		name, _, ok := strings.Cut(kv, "=")
		if ok && (slices.Contains(names, name) || strings.HasPrefix(name, localePrefix)) {
			here[name] = kv
		}
	}
	var moved []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch own, set := here[name]; {
		case !slices.Contains(names, name):
			moved = append(moved, kv)
		case set:
			moved = append(moved, own)
		case name == "TERM": // which a terminal needs, and a service manager does not set
			moved = append(moved, kv)
		}
		delete(here, name)
	}
	return append(moved, slices.Sorted(maps.Values(here))...)
}

func environ(parent []string, declared map[string]string, self Self) []string {
	vars := make(map[string]string, len(inherited)+len(declared)+4)
	for _, kv := range parent {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (slices.Contains(inherited, k) || strings.HasPrefix(k, localePrefix)) {
			vars[k] = v
		}
	}
	for k, v := range declared {
		if !strings.HasPrefix(k, EnvPrefix) {
			vars[k] = v
		}
	}
	vars[EnvAgent], vars[EnvIncarnation] = self.Agent, strconv.FormatUint(self.Incarnation, 10)
	if self.Socket != "" {
		vars[EnvSocket] = self.Socket
	}
	if self.Token != "" {
		vars[EnvToken] = self.Token
	}

	env := make([]string, 0, len(vars))
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	return env
}
