package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Origin is a value that files state, with where they do.
type Origin struct {
	// Key is the whole key, where agents and supervisors are called by their
	// names: agent.web.env.MODEL.
	Key string `json:"key,omitempty"`
	// Value is what JSON has for it; times, infinities and what is not a number are text.
	Value any `json:"value"`
	// File, Line and Column are where it is stated, as in errors.
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Overrode are the values that were there before it, the last one first.
	Overrode []Origin `json:"overrode,omitempty"`
	// Removed tells that a patch, whose place this is, has removed the value.
	Removed bool `json:"removed,omitempty"`

	value *value
	table *value // the agent or the like that it belongs to
}

// TOML is the value as a file would state it.
func (o Origin) TOML() string { return printable(inTOML(o.value)) }

// Place is file:line:column.
func (o Origin) Place() string { return fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column) }

// Values are all values that the files state and that hold, in the order of the
// tables. A list is one value.
func (l *Loaded) Values() []Origin {
	all := []Origin{}
	if l.document != nil {
		leaves(l.document, nil, func(o Origin) { all = append(all, o) })
	}
	return all
}

// leaves calls do with each value below v that is no table.
func leaves(v *value, table *value, do func(Origin)) {
	for _, f := range v.fields {
		switch {
		case f.isTables() && len(f.elements) > 0:
			for _, e := range f.elements {
				leaves(e, e, do)
			}
		case f.kind == isTable && len(f.fields) > 0:
			inner := table
			if inner == nil {
				inner = f
			}
			leaves(f, inner, do)
		default:
			do(originOf(f, table))
		}
	}
}

func originOf(v, table *value) Origin {
	o := stated(v)
	o.Key, o.table = keyPath(v), table
	for before := v.over; before != nil; before = before.over {
		o.Overrode = append(o.Overrode, stated(before))
	}
	return o
}

// stated is a value with its place alone.
func stated(v *value) Origin {
	line, column := v.src.position(v.key)
	return Origin{Value: plain(v), File: v.src.name, Line: line, Column: column, value: v}
}

// keyPath is the whole key of v, with names for the elements of arrays of
// tables that have one of their own.
func keyPath(v *value) string {
	if v.parent == nil {
		return ""
	}
	if v.parent.kind != isArray {
		return strings.TrimPrefix(keyPath(v.parent)+"."+bareKey(v.name), ".")
	}
	if name := ownName(v); name != "" {
		return keyPath(v.parent) + "." + bareKey(name)
	}
	return keyPath(v.parent) + "[" + v.name + "]"
}

// ownName is the name of an element of an array of tables, if it is the first that has it.
func ownName(v *value) string {
	if v.kind != isTable {
		return ""
	}
	if name := v.byName["name"]; name != nil && name.kind == isString && byName(v.parent)[name.text] == v {
		return name.text
	}
	return ""
}

// ErrUnread is the error of Find if a file could not be read or parsed.
var ErrUnread = errors.New("the configuration cannot be read")

// UnsetError is the error of Find for a key that could be set, and is not.
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

// Find returns what files state about a key: one value, all below a table, or
// what has been removed. Its error is an *UnsetError for a key that could be
// set and is not.
func (l *Loaded) Find(key string) ([]Origin, error) {
	segments, err := splitKey(key)
	if err != nil {
		return nil, err
	}
	if l.document == nil {
		return nil, ErrUnread
	}
	v, table := l.document, (*value)(nil)
	for i, name := range segments {
		next, names := step(v, name)
		if next == nil {
			if i == len(segments)-1 && v.kind == isTable {
				for _, g := range v.gone {
					if g.what.name == name {
						o := originOf(g.what, table)
						o.Overrode = append([]Origin{stated(g.what)}, o.Overrode...)
						o.Line, o.Column = g.by.src.position(g.by.at)
						o.File, o.Removed, o.Value = g.by.src.name, true, nil
						return []Origin{o}, nil
					}
				}
			}
			if r := rowOf(segments); r != nil && v.kind == isTable {
				return nil, &UnsetError{key, r.def, r.doc}
			}
			return nil, unknownKey(key, v, name, names)
		}
		if v = next; table == nil && v.kind == isTable {
			table = v
		}
	}
	switch {
	case v.kind == isTable || v.isTables() && len(v.elements) > 0:
		all := []Origin{}
		if v.kind == isArray {
			leaves(&value{kind: isTable, fields: []*value{v}}, nil, func(o Origin) { all = append(all, o) })
		} else {
			leaves(v, table, func(o Origin) { all = append(all, o) })
		}
		return all, nil
	default:
		return []Origin{originOf(v, table)}, nil
	}
}

// step goes from v to what is called name in it, by name or index, or tells
// what there is.
func step(v *value, name string) (*value, []string) {
	switch v.kind {
	case isTable:
		if f := v.byName[name]; f != nil {
			return f, nil
		}
		var names []string
		for _, f := range v.fields {
			names = append(names, f.name)
		}
		return nil, names
	case isArray:
		named := byName(v)
		if e := named[name]; e != nil {
			return e, nil
		}
		if i, err := strconv.Atoi(name); err == nil && 0 <= i && i < len(v.elements) {
			return v.elements[i], nil
		}
		var names []string
		for _, e := range v.elements {
			if n := ownName(e); n != "" {
				names = append(names, n)
			}
		}
		return nil, names
	}
	return nil, nil
}

func unknownKey(key string, in *value, name string, names []string) error {
	where := keyPath(in)
	if where == "" {
		where = "the file"
	}
	hint := ""
	if near := suggest.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", strings.TrimPrefix(keyPath(in)+"."+bareKey(near), "."))
	} else if len(names) > 0 && len(names) <= 20 {
		hint = "; there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("there is no %s: %s has no %s%s", printable(key), printable(where), spec.Quote(name),
		printable(hint))
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

// splitKey splits a key as TOML writes it, where an index may be in brackets.
func splitKey(key string) ([]string, error) {
	wrong := func() ([]string, error) {
		return nil, fmt.Errorf("%s is no key; write it as agent.web.env.MODEL, with quotes around what has dots",
			spec.Quote(key))
	}
	var segments []string
	rest := key
	for {
		var name string
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return wrong()
			}
			if name, err = strconv.Unquote(quoted); err != nil {
				return wrong()
			}
			rest = rest[len(quoted):]
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if name, rest = rest[:end], rest[end:]; name == "" {
				return wrong()
			}
		}
		segments = append(segments, name)
		for strings.HasPrefix(rest, "[") {
			index, after, ok := strings.Cut(rest[1:], "]")
			if _, err := strconv.Atoi(index); !ok || err != nil {
				return wrong()
			}
			segments, rest = append(segments, index), after
		}
		if rest == "" {
			return segments, nil
		}
		if rest[0] != '.' {
			return wrong()
		}
		rest = rest[1:]
	}
}
