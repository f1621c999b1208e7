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

// Environ makes the complete environment of one incarnation, sorted: the
// inherited short list (and LC_*), over it what was declared, over that
// COPPICE_PATH and COPPICE_INCARNATION. Declared names that begin with
// EnvPrefix are left out.
func Environ(declared map[string]string, path string, incarnation uint64) []string {
	return environ(os.Environ(), declared, path, incarnation)
}

// Renumber returns an environment of Environ for another incarnation.
func Renumber(env []string, incarnation uint64) []string {
	const key = EnvPrefix + "INCARNATION="
	env = slices.Clone(env)
	for i, kv := range env {
		if strings.HasPrefix(kv, key) {
			env[i] = key + strconv.FormatUint(incarnation, 10)
		}
	}
	return env
}

func environ(parent []string, declared map[string]string, path string, incarnation uint64) []string {
	vars := make(map[string]string, len(inherited)+len(declared)+2)
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
	vars[EnvPrefix+"PATH"] = path
	vars[EnvPrefix+"INCARNATION"] = strconv.FormatUint(incarnation, 10)

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
