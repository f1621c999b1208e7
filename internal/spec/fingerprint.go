package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// Fingerprint is the SHA-256, in hex, of what a running agent cannot change
// without being restarted: command, directory, environment, standard input.
// Restart policy, backoff, limit, shutdown and readiness belong to whoever
// watches it and are changed in place. (The Gas City seed, "config drift".)
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
	put("agent 1") // the version of this encoding
	put(a.Command...)
	put(a.Dir, a.Stdin)
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		put(name, a.Env[name])
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
