package config

import (
	"slices"
	"strconv"
)

// join adds the fields of another table to those of v, field by field: tables
// are joined, arrays of tables are put behind each other, and anything else
// takes the place of what was there, which it remembers.
func (v *value) join(other *value) {
	for _, f := range other.fields {
		v.put(f)
	}
}

// put adds a field as join does.
func (v *value) put(f *value) {
	old := v.byName[f.name]
	switch {
	case old == nil:
		v.adopt(f)
	case old.kind == isTable && f.kind == isTable:
		old.join(f)
	case old.isTables() && f.isTables() && len(old.elements)+len(f.elements) > 0:
		for _, e := range f.elements {
			e.parent = old
			old.append(e)
		}
	default:
		v.replace(old, f)
	}
}

// isTables reports whether v is an array of nothing but tables.
func (v *value) isTables() bool {
	return v.kind == isArray && !slices.ContainsFunc(v.elements, func(e *value) bool { return e.kind != isTable })
}

func (v *value) adopt(f *value) {
	f.parent = v
	v.fields = append(v.fields, f)
	v.byName[f.name] = f
}

func (v *value) replace(old, f *value) {
	f.parent, f.over = v, old
	v.fields[slices.Index(v.fields, old)] = f
	v.byName[f.name] = f
}

// remove takes a field away, and returns it; nil if there is none.
func (v *value) remove(name string) *value {
	f := v.byName[name]
	if f != nil {
		delete(v.byName, name)
		v.fields = slices.DeleteFunc(v.fields, func(other *value) bool { return other == f })
	}
	return f
}

// extended is a new array: the elements of old, which may be nil, and then those of more.
func extended(old, more *value) *value {
	v := &value{kind: isArray, src: more.src, at: more.at, key: more.key, over: old}
	if old != nil {
		v.elements = slices.Clone(old.elements)
	}
	v.elements = append(v.elements, more.elements...)
	for i, e := range v.elements {
		e.parent, e.name = v, strconv.Itoa(i)
	}
	return v
}

// short returns what shorthand says of a path, where there are shorthands.
func short(shorthand func(path ...string) string, path []string) string {
	if shorthand == nil {
		return ""
	}
	return shorthand(path...)
}

// amend is put for a table in which a value may be written as a table in one place and
// short in the other, as shorthand says.
func (v *value) amend(f *value, shorthand func(path ...string) string, path ...string) {
	path = append(path, f.name)
	old := v.byName[f.name]
	if old == nil {
		for _, g := range v.gone {
			if g.what.name == f.name {
				f.over = g.what
			}
		}
		v.adopt(f)
		return
	}
	if short := short(shorthand, path); short != "" && (old.kind == isTable) != (f.kind == isTable) {
		if f.kind == isTable {
			whole := inTable(old, short)
			whole.parent, v.byName[f.name], v.fields[slices.Index(v.fields, old)] = v, whole, whole
			old = whole
		} else {
			f = inTable(f, short)
		}
	}
	if old.kind != isTable || f.kind != isTable {
		v.replace(old, f)
		return
	}
	for _, field := range f.fields {
		old.amend(field, shorthand, path...)
	}
}

// inTable is the table for which v stands: v is its only field, called short.
func inTable(v *value, short string) *value {
	t := newTable(v.src, v.name, v.at, nil)
	t.key = v.key
	v.name = short
	t.adopt(v)
	return t
}
