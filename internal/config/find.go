package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
)

// ErrUnread is returned by Loaded.Find if a file could not be read or parsed.
var ErrUnread = errors.New("the configuration cannot be read")

// UnsetError is returned by Loaded.Find for a valid key that is not set.
type UnsetError struct {
	// Default describes the default and may be empty. Meaning documents the key.
	Key, Default, Meaning string
}

func (e *UnsetError) Error() string {
	if e.Default == "" {
		return e.Key + " is not set"
	}
	return fmt.Sprintf("%s is not set; the default is %s", e.Key, e.Default)
}

// WriteTOML writes the whole configuration as one file, with the origin of each value in a
// comment. It omits defaults.
func (l *Loaded) WriteTOML(w io.Writer) error {
	if l.document == nil {
		return nil
	}
	return toml.Write(w, l.document)
}

// Values returns all values that files set, in the order of the tables. A list is one value.
func (l *Loaded) Values() []toml.Origin {
	if l.document == nil {
		return []toml.Origin{}
	}
	return toml.Values(l.document)
}

// Keys returns the keys of all values, for shell completion.
func (l *Loaded) Keys() []string {
	var keys []string
	for _, o := range l.Values() {
		keys = append(keys, o.Key)
	}
	return slices.Compact(keys)
}

// Find returns the values at a key: one value, all values of a table, or a value that a
// patch has removed. For a valid key that is not set, the error is an *UnsetError.
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

// rowOf returns the row that documents a key, or nil. The row of agent.NAME.shutdown.grace is
// in [agent.shutdown].
func rowOf(segments []string) *toml.Row {
	if len(segments) > 2 && (segments[0] == "agent" || segments[0] == "supervisor") {
		segments = append([]string{segments[0]}, segments[2:]...)
	}
	for i := range segments[1:] { // one table documents all hooks
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
