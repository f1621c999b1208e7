package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrUnread is the error of Loaded.Find if a file could not be read or parsed.
var ErrUnread = errors.New("the configuration cannot be read")

// UnsetError is the error of Loaded.Find for a key that could be set, and is not.
type UnsetError struct {
	// Default is in words, and may be empty. Meaning is what the key is for.
	Key, Default, Meaning string
}

func (e *UnsetError) Error() string {
	if e.Default == "" {
		return e.Key + " is not set"
	}
	return fmt.Sprintf("%s is not set; the default is %s", e.Key, e.Default)
}

// WriteTOML writes the whole configuration as one file, with the origin of each value in
// a comment. Defaults are left out.
func (l *Loaded) WriteTOML(w io.Writer) error {
	if l.document == nil {
		return nil
	}
	return writeDocument(w, l.document)
}

// Values returns all values that the files state and that hold, in the order of the
// tables. A list is one value.
func (l *Loaded) Values() []Origin {
	if l.document == nil {
		return []Origin{}
	}
	return valuesOf(l.document)
}

// Keys returns the keys of all values, for completions.
func (l *Loaded) Keys() []string {
	var keys []string
	for _, o := range l.Values() {
		keys = append(keys, o.Key)
	}
	return slices.Compact(keys)
}

// Find returns what files state about a key: one value, all below a table, or what has
// been removed. Its error is an *UnsetError for a key that could be set and is not.
func (l *Loaded) Find(key string) ([]Origin, error) {
	if l.document == nil {
		return nil, ErrUnread
	}
	return findKey(l.document, key, func(segments []string) error {
		if r := rowOf(segments); r != nil {
			return &UnsetError{key, r.def, r.doc}
		}
		return nil
	})
}

// rowOf is the row that documents a key: agent.NAME.shutdown.grace is in
// [agent.shutdown]. It is nil if there is none.
func rowOf(segments []string) *row {
	if len(segments) > 2 && (segments[0] == "agent" || segments[0] == "supervisor") {
		segments = append([]string{segments[0]}, segments[2:]...)
	}
	for i := range segments[1:] { // all hooks are documented as one
		if i+2 < len(segments) && shorthand(segments[1:i+2]...) == "command" {
			segments = []string{segments[0], "on_waking", segments[len(segments)-1]}
			break
		}
	}
	table, key := strings.Join(segments[:len(segments)-1], "."), segments[len(segments)-1]
	for _, s := range sections() {
		if strings.Trim(s.header, "[]") == table {
			if r := s.row(key); r != nil {
				return r
			}
		}
	}
	return nil
}
