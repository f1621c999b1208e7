package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
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
	return toml.Write(w, l.document)
}

// Values returns all values that the files state and that hold, in the order of the
// tables. A list is one value.
func (l *Loaded) Values() []toml.Origin {
	if l.document == nil {
		return []toml.Origin{}
	}
	return toml.Values(l.document)
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
func (l *Loaded) Find(key string) ([]toml.Origin, error) {
	if l.document == nil {
		return nil, ErrUnread
	}
	return toml.Find(l.document, key, func(segments []string) error {
		if r := rowOf(segments); r != nil {
			return &UnsetError{key, r.Default, r.Doc}
		}
		return nil
	})
}

// rowOf returns the row that documents a key: agent.NAME.shutdown.grace is in
// [agent.shutdown]. It is nil if there is none.
func rowOf(segments []string) *toml.Row {
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
		if strings.Trim(s.Header, "[]") == table {
			if r := s.Row(key); r != nil {
				return r
			}
		}
	}
	return nil
}
