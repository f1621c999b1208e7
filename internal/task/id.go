package task

import (
	"fmt"
	"slices"
	"strings"
)

// idLetters are the characters of generated ids. They have no vowels, so they form no words, and
// no characters that look alike.
const idLetters = "bcdfghjkmnpqrstvwxz23456789"

const minSuffix = 3 // letters

// idSuffix returns the end of the n-th id, from 0. A one-to-one map scrambles the numbers of each
// length, so consecutive ids differ and none repeats.
func idSuffix(n uint64) string {
	const base = uint64(len(idLetters)) // 3³: numbers that are not multiples of 3 have an inverse
	length, size := minSuffix, base*base*base
	for n >= size {
		n -= size
		length++
		size *= base
	}
	// A step close to the golden section of the range keeps neighbours far apart.
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

// ids gives the tasks of a project their ids and numbers.
type ids struct {
	prefix string
	number uint64 // the last one that was given
}

// full returns the id that was abbreviated by leaving out the prefix.
func (i *ids) full(id string) string { return i.prefix + "-" + id }

// next returns a number, and an id that is not taken.
func (i *ids) next(taken func(id string) bool) (id string, number uint64) {
	for {
		i.number++
		if id = i.full(idSuffix(i.number - 1)); !taken(id) { // as one by an imported task
			return id, i.number
		}
	}
}

// among returns full ids out of a list of those that are there. The tasks need not exist.
func (i *ids) among(some, there []string) ([]string, error) {
	var all []string
	for _, id := range some {
		full := i.full(id)
		switch {
		case slices.Contains(there, id):
			all = append(all, id)
		case slices.Contains(there, full):
			all = append(all, full)
		default:
			return nil, fmt.Errorf("%w: it does not depend on %.100q", ErrInvalid, id)
		}
	}
	return all, nil
}

// idPrefix returns the common prefix of a project's ids, which is derived from its name.
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

// CheckID returns an ErrInvalid unless an id has up to 100 letters, digits, dots, dashes and
// underscores and begins with a letter or a digit.
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
