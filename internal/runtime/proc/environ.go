package proc

import (
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

// Variables that give an agent its identity and the way to its daemon. A variable whose value
// would be empty is not set.
const (
	EnvAgent       = EnvPrefix + "AGENT"       // path of the agent
	EnvIncarnation = EnvPrefix + "INCARNATION" // number of the incarnation
	EnvSocket      = EnvPrefix + "SOCKET"      // socket of its daemon
	EnvToken       = EnvPrefix + "TOKEN"       // proves that a caller is this incarnation
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

func environ(parent []string, declared map[string]string, self Self) []string {
	vars := make(map[string]string, len(inherited)+len(declared)+4)
	for _, kv := range parent {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (slices.Contains(inherited, k) || strings.HasPrefix(k, "LC_")) {
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
