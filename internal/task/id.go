package task

import (
	"fmt"
	"strings"
)

// idLetters make up the end of an id: no vowels, so that no words
// come about, and nothing that is mistaken for something else.
const idLetters = "bcdfghjkmnpqrstvwxz23456789"

const minSuffix = 3 // letters

// idSuffix is the end of the n-th id, from 0. The numbers of each length are
// mixed by a map that is one to one, so that ids which follow each other look
// nothing alike and none comes twice.
func idSuffix(n uint64) string {
	const base = uint64(len(idLetters)) // 3³: what is no multiple of 3 has an inverse
	length, size := minSuffix, base*base*base
	for n >= size {
		n -= size
		length++
		size *= base
	}
	// Close to the golden section of the range, so that neighbours are far apart.
	step := size/1618*1000 + 1
	for step%3 == 0 {
		step++
	}
	n = (n%size*(step%size) + size/7) % size
	letters := make([]byte, length)
	for i := range letters {
		letters[i] = idLetters[n%base]
		n /= base
	}
	return string(letters)
}

// idPrefix returns the beginning of all ids of a project, which is that of its name.
func idPrefix(name string) string {
	const most = 12
	prefix := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		case r == '-', r == '_', r == '.', r == ' ':
			return '-'
		}
		return -1
	}, name)
	prefix = strings.Trim(prefix[:min(len(prefix), most)], "-")
	if prefix == "" {
		return "task"
	}
	return prefix
}

// CheckID says what is wrong with an id: it is up to 100 letters, digits and
// . _ - and begins with a letter or a digit.
func CheckID(id string) error {
	const most = 100
	ok := id != "" && len(id) <= most
	for i, r := range id {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		ok = ok && (letter || i > 0 && strings.ContainsRune("._-", r))
	}
	if !ok {
		return fmt.Errorf("%w: %.40q is not an id, expected up to %d letters, digits, dots and dashes, such as web-x4k",
			ErrInvalid, id, most)
	}
	return nil
}
