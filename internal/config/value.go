package config

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// kind is the type of a TOML value.
type kind uint8

const (
	isTable kind = iota
	isArray
	isString
	isInteger
	isFloat
	isBool
	isTime
)

func (k kind) String() string {
	return [...]string{"a table", "an array", "a string", "an integer", "a float", "a boolean", "a date or time"}[k]
}

// value is a TOML value that knows its place. The TOML library decodes either
// values without places or a syntax tree without meaning; this is both.
type value struct {
	kind   kind
	src    *source
	at     int    // offset of the value; of the key for a table with a header
	key    int    // offset of its key; of the value for an element of an array
	name   string // last segment of its key; the index for an element of an array
	parent *value

	text     string // isString: decoded; other scalars: as written
	elements []*value
	fields   []*value          // isTable: in the order of the file
	byName   map[string]*value // isTable: the same by name

	over *value    // what this one has replaced, in another file or by a patch
	gone []removal // isTable: what a patch has removed
}

// removal is a field that is no more.
type removal struct{ what, by *value }

// path is the whole key, such as agent[0].shutdown.grace.
func (v *value) path() string {
	if v.parent == nil {
		return ""
	}
	if v.parent.kind == isArray {
		return v.parent.path() + "[" + v.name + "]"
	}
	return strings.TrimPrefix(v.parent.path()+"."+bareKey(v.name), ".")
}

// bareKey quotes a key where TOML would, and cuts a very long one.
func bareKey(name string) string {
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

// find returns the value at a path below v, or the last one there is on the way.
func (v *value) find(path ...string) *value {
	for _, name := range path {
		next := v.byName[name]
		if v.kind == isArray {
			if i, err := strconv.Atoi(name); err == nil && i < len(v.elements) {
				next = v.elements[i]
			}
		}
		if next == nil {
			return v
		}
		v = next
	}
	return v
}

// compare orders values by their places.
func (v *value) compare(other *value) int {
	return cmp.Or(v.src.order-other.src.order, v.at-other.at)
}

// textOf is a field that is a string; "" if there is none.
func textOf(v *value, name string) string {
	if v == nil || v.byName[name] == nil || v.byName[name].kind != isString {
		return ""
	}
	return v.byName[name].text
}

func newTable(src *source, name string, at int, parent *value) *value {
	return &value{kind: isTable, src: src, at: at, key: at, name: name, parent: parent, byName: map[string]*value{}}
}

func (v *value) append(element *value) *value {
	element.name = strconv.Itoa(len(v.elements))
	v.elements = append(v.elements, element)
	return element
}

// copyOf is a value to be put somewhere else, under another name; nil of nil.
func copyOf(v *value, name string) *value {
	if v == nil {
		return nil
	}
	c := *v
	c.name, c.parent = name, nil
	return &c
}

// made is a value that stands for another one, at its place.
func made(from *value, k kind, name, text string) *value {
	return &value{kind: k, src: from.src, at: from.at, key: from.key, name: name, text: text, over: from.over}
}

func madeTable(from *value, name string) *value {
	t := newTable(from.src, name, from.at, nil)
	t.key = from.key
	return t
}
