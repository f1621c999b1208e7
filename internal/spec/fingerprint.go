package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
)

// Fingerprint is the SHA-256, in hex, of what a running agent cannot change
// without being restarted: command, directory, environment, standard input,
// and its files, runtime, terminal, limits, user, privileges, whether it is listened to how often, and the program
// that it is a part of.
// Restart policy, backoff, limit, shutdown, readiness, liveness and nudges belong
// to whoever watches it and are changed in place; declarations of beliefs hold
// from its next incarnation on. (The Gas City seed, "config drift".)
func (a *Agent) Fingerprint() string {
	var b []byte
	put := func(parts ...string) {
		// Lengths in front, so that no two lists run together to the same bytes.
		b = binary.AppendUvarint(b, uint64(len(parts)))
		for _, p := range parts {
			b = binary.AppendUvarint(b, uint64(len(p)))
			b = append(b, p...)
		}
	}
	put("agent 2") // the version of this encoding
	put(a.Command...)
	put(a.Dir, a.Stdin)
	put(a.Runtime.String(), strconv.FormatBool(a.Terminal))
	put(strconv.FormatInt(a.Limits.Memory, 10), strconv.FormatFloat(a.Limits.CPU, 'g', -1, 64),
		strconv.FormatUint(a.Limits.OpenFiles, 10), strconv.FormatUint(a.Limits.Processes, 10))
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		put(name, a.Env[name])
	}
	if a.User != "" {
		put("user", a.User, a.Group)
	}
	if a.NoNewPrivileges {
		put("no_new_privileges")
	}
	if len(a.EnvFiles) > 0 {
		put(append([]string{"env_file"}, a.EnvFiles...)...)
	}
	if a.Aide != nil { // what it says is read anew for each run
		put("aide", a.Aide.Path)
	}
	if a.Revision != "" {
		put("revision", a.Revision)
	}
	if a.Notify { // in the environment, too
		put("notify", a.Watchdog.String(), "")
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
