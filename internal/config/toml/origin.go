package toml

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Origin is a value of the configuration and the places that set it.
type Origin struct {
	// Key is the whole key, with names for agents and supervisors: agent.web.env.MODEL.
	Key string `json:"key,omitempty"`
	// Value is the value as JSON; times, infinities and NaN are text.
	Value any `json:"value"`
	// File, Line and Column are the place that sets it, as in errors.
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Overrode are the values that it replaced, the latest first.
	Overrode []Origin `json:"overrode,omitempty"`
	// Removed reports that a patch at this place has removed the value.
	Removed bool `json:"removed,omitempty"`

	value *Value
}

// TOML returns the value in the syntax of TOML.
func (o Origin) TOML() string { return printable(Format(o.value)) }

// Place returns file:line:column.
func (o Origin) Place() string { return fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column) }

// Values returns all values of a document in the order of its tables. A list is one value.
func Values(document *Value) []Origin {
	return appendLeaves([]Origin{}, document)
}

// appendLeaves appends all values below v that are not tables.
func appendLeaves(all []Origin, v *Value) []Origin {
	for _, f := range v.Fields {
		switch {
		case f.IsTables() && len(f.Elements) > 0:
			for _, e := range f.Elements {
				all = appendLeaves(all, e)
			}
		case f.Kind == KindTable && len(f.Fields) > 0:
			all = appendLeaves(all, f)
		default:
			all = append(all, originOf(f))
		}
	}
	return all
}

func originOf(v *Value) Origin {
	o := placed(v)
	o.Key = KeyPath(v)
	for before := v.Over; before != nil; before = before.Over {
		o.Overrode = append(o.Overrode, placed(before))
	}
	return o
}

// placed returns a value with its place, but without its key and what it replaced.
func placed(v *Value) Origin {
	line, column := v.Source.position(v.Key)
	return Origin{Value: jsonValue(v), File: v.Source.Name, Line: line, Column: column, value: v}
}

// KeyPath returns the whole key of v. Elements of arrays of tables appear by name if they
// have one.
func KeyPath(v *Value) string {
	if v.Parent == nil {
		return ""
	}
	if v.Parent.Kind != KindArray {
		return strings.TrimPrefix(KeyPath(v.Parent)+"."+BareKey(v.Name), ".")
	}
	if name := ownName(v); name != "" {
		return KeyPath(v.Parent) + "." + BareKey(name)
	}
	return KeyPath(v.Parent) + "[" + v.Name + "]"
}

// ownName returns the name of an element of an array of tables, if it is the first with that name.
func ownName(v *Value) string {
	if v.Kind != KindTable {
		return ""
	}
	if name := v.Field("name"); name != nil && name.Kind == KindString && ByName(v.Parent)[name.Text] == v {
		return name.Text
	}
	return ""
}

// Find returns the values at a key: one value, all values of a table, or a value that a
// patch has removed. For a key that is not set, unset may return a more specific error.
func Find(document *Value, key string, unset func(segments []string) error) ([]Origin, error) {
	segments, err := splitKey(key)
	if err != nil {
		return nil, err
	}
	v := document
	for i, name := range segments {
		next, names := step(v, name)
		if next == nil {
			if i == len(segments)-1 && v.Kind == KindTable {
				if o, ok := removed(v, name); ok {
					return []Origin{o}, nil
				}
			}
			if v.Kind == KindTable {
				if err := unset(segments); err != nil {
					return nil, err
				}
			}
			return nil, unknownKey(key, v, name, names)
		}
		v = next
	}
	if v.Kind == KindTable {
		return appendLeaves([]Origin{}, v), nil
	}
	return appendLeaves([]Origin{}, &Value{Kind: KindTable, Fields: []*Value{v}}), nil
}

// removed returns the field name that a patch has removed from v.
func removed(v *Value, name string) (o Origin, ok bool) {
	for _, g := range v.Gone {
		if g.what.Name == name {
			o = originOf(g.what)
			o.Overrode = append([]Origin{placed(g.what)}, o.Overrode...)
			o.Line, o.Column = g.by.Source.position(g.by.At)
			o.File, o.Removed, o.Value = g.by.Source.Name, true, nil
			return o, true
		}
	}
	return o, false
}

// step returns the field or element of v with a name or index. If there is none, it returns
// the names that exist.
func step(v *Value, name string) (*Value, []string) {
	switch v.Kind {
	case KindTable:
		if f := v.Field(name); f != nil {
			return f, nil
		}
		return nil, v.fieldNames()
	case KindArray:
		if e := ByName(v)[name]; e != nil {
			return e, nil
		}
		if i, err := strconv.Atoi(name); err == nil && 0 <= i && i < len(v.Elements) {
			return v.Elements[i], nil
		}
		var names []string
		for _, e := range v.Elements {
			if n := ownName(e); n != "" {
				names = append(names, n)
			}
		}
		return nil, names
	}
	return nil, nil
}

func unknownKey(key string, in *Value, name string, names []string) error {
	where, hint := cmp.Or(KeyPath(in), "the file"), ""
	if near := suggest.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", strings.TrimPrefix(KeyPath(in)+"."+BareKey(near), "."))
	} else if len(names) > 0 && len(names) <= 20 {
		hint = "; there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("there is no %s: %s has no %s%s", printable(key), printable(where), spec.Quote(name),
		printable(hint))
}

// splitKey splits a key in the syntax of TOML, in which brackets may hold an index.
func splitKey(key string) ([]string, error) {
	wrong := func() ([]string, error) {
		return nil, fmt.Errorf("%s is not a key; write it as agent.web.env.MODEL, with quotes around segments that "+
			"contain dots", spec.Quote(key))
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
