package proc

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// EnvPrefix begins the names of the variables that Coppice sets itself. They
// cannot be declared: an agent must not be told that it is another one.
const EnvPrefix = "COPPICE_"

// inherited are the variables that an agent gets from the environment of this
// program without being declared: what a program needs to find its files, the
// user and the language, and nothing that may be a secret.
var inherited = []string{
	"PATH", "HOME", "LANG", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "XDG_RUNTIME_DIR",
}

// Variables that tell an agent who it is and how to talk to its daemon. One
// that would be empty is not set.
const (
	EnvAgent       = EnvPrefix + "AGENT"       // its path
	EnvIncarnation = EnvPrefix + "INCARNATION" // its number
	EnvSocket      = EnvPrefix + "SOCKET"      // where its daemon listens
	EnvToken       = EnvPrefix + "TOKEN"       // proves that a caller is this incarnation
)

// Self is what an incarnation is told about itself.
type Self struct {
	Agent       string
	Incarnation uint64
	Socket      string
	Token       string
}

// Environ makes the complete environment of one incarnation, sorted: the
// inherited short list (and LC_*), over it what was declared, over that what
// it is told about itself. Declared names that begin with EnvPrefix are left out.
func Environ(declared map[string]string, self Self) []string {
	return environ(os.Environ(), declared, self)
}

// Reissue returns an environment of Environ for another incarnation.
func Reissue(env []string, incarnation uint64, token string) []string {
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

// withEnv returns env with one variable set, leaving env as it is.
func withEnv(env []string, key, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, key+"=") {
			out = append(out, kv)
		}
	}
	return append(out, key+"="+value)
}
