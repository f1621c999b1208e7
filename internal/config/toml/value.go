// Package toml reads TOML documents in which every value knows its place. Each error names
// file, line and column, what was expected and what to do.
//
// A Table describes the keys of a table as data. The same rows read the values into Go,
// suggest the key that was meant by an unknown one, and write the reference page and the
// JSON Schema. Documents can be joined and patched; each value remembers what it replaced.
package toml

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Kind is the type of a TOML value.
type Kind uint8

const (
	KindTable Kind = iota
	KindArray
	KindString
	KindInteger
	KindFloat
	KindBool
	KindTime
)

func (k Kind) String() string {
	return [...]string{"a table", "an array", "a string", "an integer", "a float", "a boolean", "a date or time"}[k]
}

// Value is a TOML value that knows its place. The TOML library offers either values without
// places or a bare syntax tree.
type Value struct {
	Kind   Kind
	Source *Source
	At     int    // offset of the value; for a table with a header, of its key
	Key    int    // offset of its key; for an element of an array, of the value
	Name   string // last segment of its key; for an element of an array, its index
	Parent *Value

	Text     string // decoded for a KindString; as written for other scalars
	Elements []*Value
	Fields   []*Value          // of a KindTable, in the order of the file
	byName   map[string]*Value // the same by name

	Over *Value    // the value that this one has replaced, from another file or before a patch
	Gone []removal // fields of a KindTable that patches have removed
}

// removal is a field that a patch has removed.
type removal struct{ what, by *Value }

// path returns the whole key with indices, such as agent[0].shutdown.grace.
func (v *Value) path() string {
	if v.Parent == nil {
		return ""
	}
	if v.Parent.Kind == KindArray {
		return v.Parent.path() + "[" + v.Name + "]"
	}
	return strings.TrimPrefix(v.Parent.path()+"."+BareKey(v.Name), ".")
}

// BareKey quotes a key if TOML requires it, and truncates a very long one.
func BareKey(name string) string {
	if name == "" || len(name) > spec.MaxName {
		return spec.Quote(name)
	}
	for _, r := range name {
		if !(r == '_' || r == '-' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z') {
			return spec.Quote(name)
		}
	}
	return name
}

// Find returns the value at a path below v, or the last value that exists on that path.
func (v *Value) Find(path ...string) *Value {
	for _, name := range path {
		next := v.byName[name]
		if v.Kind == KindArray {
			if i, err := strconv.Atoi(name); err == nil && i < len(v.Elements) {
				next = v.Elements[i]
			}
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

// Field returns a field of a table, or nil.
func (v *Value) Field(name string) *Value { return v.byName[name] }

// fieldNames returns the names of the fields of a table, in the order of the file.
func (v *Value) fieldNames() (names []string) {
	for _, f := range v.Fields {
		names = append(names, f.Name)
	}
	return names
}

// Spot returns the place of v.
func (v *Value) Spot() Spot { return Spot{v.Source, v.At} }

// Line returns the line number of v.
func (v *Value) Line() int {
	line, _ := v.Source.position(v.At)
	return line
}

// Compare orders values by their places.
func (v *Value) Compare(other *Value) int {
	return cmp.Or(v.Source.Order-other.Source.Order, v.At-other.At)
}

// TextOf returns the text of a string field, or "".
func TextOf(v *Value, name string) string {
	if v != nil && v.byName[name] != nil && v.byName[name].Kind == KindString {
		return v.byName[name].Text
	}
	return ""
}

// NewTable returns an empty table.
func NewTable(src *Source, name string, at int, parent *Value) *Value {
	return &Value{Kind: KindTable, Source: src, At: at, Key: at, Name: name, Parent: parent,
		byName: map[string]*Value{}}
}

// Append adds an element to an array and returns it.
func (v *Value) Append(element *Value) *Value {
	element.Name, element.Parent = strconv.Itoa(len(v.Elements)), v
	v.Elements = append(v.Elements, element)
	return element
}

// CopyAs returns a shallow copy of a value without a parent, under another name; nil for nil.
func CopyAs(v *Value, name string) *Value {
	if v == nil {
		return nil
	}
	c := *v
	c.Name, c.Parent = name, nil
	return &c
}

// Derive returns a new value with the place of another one.
func Derive(from *Value, k Kind, name, text string) *Value {
	return &Value{Kind: k, Source: from.Source, At: from.At, Key: from.Key, Name: name, Text: text, Over: from.Over}
}

// DeriveTable returns an empty table with the place of a value.
func DeriveTable(from *Value, name string) *Value {
	t := NewTable(from.Source, name, from.At, nil)
	t.Key = from.Key
	return t
}
