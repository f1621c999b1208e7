// Package safename turns texts of people and language models into names that are safe in paths,
// branches, URLs and keys.
package safename

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Max is the maximum length of a name in bytes.
const Max = 48

// hashLength is the length of the hash that ends the name of a text that was changed, in bytes.
const hashLength = 8

// Of returns the name of a text: 1 to Max bytes of lower-case letters, digits and '-', which does not
// begin with '-' and is no device name of Windows. A text that is such a name is its own name. Any
// other is simplified, and ends with '-' and 40 bits of its SHA-256, so that texts that differ only
// in case or in what was removed have different names.
//
// Two texts have the same name only if one of them is the name of the other, or if their hashes
// collide, which somebody can search for. A caller that must tell such texts apart keeps the text
// next to the name and compares it.
func Of(text string) string {
	if Valid(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
	base := simplify(text, Max-1-hashLength)
	if base == "" {
		base = "x"
	}
	return base + "-" + hash
}

// Valid reports whether a text is its own name.
func Valid(text string) bool {
	if text == "" || len(text) > Max || text[0] == '-' || isDevice(text) {
		return false
	}
	for i := range len(text) {
		if text[i] != '-' && !isAlphanumeric(text[i]) {
			return false
		}
	}
	return true
}

// simplify returns at most limit bytes of the letters and digits of a text, with one '-' between
// them in place of everything else.
func simplify(text string, limit int) string {
	var b strings.Builder
	pending := false
	for i := 0; i < len(text) && b.Len() < limit; i++ {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if !isAlphanumeric(c) {
			pending = b.Len() > 0
			continue
		}
		if pending {
			b.WriteByte('-')
			pending = false
		}
		if b.Len() < limit {
			b.WriteByte(c)
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// isDevice reports whether Windows takes a name for a device.
func isDevice(name string) bool {
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	port, isPort := strings.CutPrefix(name, "com")
	if !isPort {
		port, isPort = strings.CutPrefix(name, "lpt")
	}
	return isPort && len(port) == 1 && '0' <= port[0] && port[0] <= '9'
}
