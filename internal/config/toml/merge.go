package toml

import "slices"

// Join adds the fields of another table to those of v, field by field: tables
// are joined, arrays of tables are put behind each other, and anything else
// takes the place of what was there, which it remembers.
func (v *Value) Join(other *Value) {
	for _, f := range other.Fields {
		v.Put(f)
	}
}

// Put adds a field as join does.
func (v *Value) Put(f *Value) {
	old := v.byName[f.Name]
	switch {
	case old == nil:
		v.Adopt(f)
	case old.Kind == KindTable && f.Kind == KindTable:
		old.Join(f)
	case old.IsTables() && f.IsTables() && len(old.Elements)+len(f.Elements) > 0:
		for _, e := range f.Elements {
			old.Append(e)
		}
	default:
		v.Replace(old, f)
	}
}

// IsTables reports whether v is an array of nothing but tables.
func (v *Value) IsTables() bool {
	return v.Kind == KindArray && !slices.ContainsFunc(v.Elements, func(e *Value) bool { return e.Kind != KindTable })
}

// Adopt adds a field to a table that has none of its name.
func (v *Value) Adopt(f *Value) {
	f.Parent = v
	v.Fields = append(v.Fields, f)
	v.byName[f.Name] = f
}

// Replace puts a field in the place of another one, which it remembers.
func (v *Value) Replace(old, f *Value) {
	f.Parent, f.Over = v, old
	v.Fields[slices.Index(v.Fields, old)] = f
	v.byName[f.Name] = f
}

// Remove takes a field away, and returns it; nil if there is none.
func (v *Value) Remove(name string) *Value {
	f := v.byName[name]
	if f != nil {
		delete(v.byName, name)
		v.Fields = slices.DeleteFunc(v.Fields, func(other *Value) bool { return other == f })
	}
	return f
}

// Extended returns a new array: the elements of old, which may be nil, and then those of more.
func Extended(old, more *Value) *Value {
	v := &Value{Kind: KindArray, Source: more.Source, At: more.At, Key: more.Key, Over: old}
	if old != nil {
		for _, e := range old.Elements {
			v.Append(e)
		}
	}
	for _, e := range more.Elements {
		v.Append(e)
	}
	return v
}

// patchField works as Put for a table in which a value may be written as a table in one
// place and short in the other, as shorthand says. Without shorthands, shorthand is nil.
func (v *Value) patchField(f *Value, shorthand func(path ...string) string, path ...string) {
	path = append(path, f.Name)
	old := v.byName[f.Name]
	if old == nil {
		for _, g := range v.Gone {
			if g.what.Name == f.Name {
				f.Over = g.what
			}
		}
		v.Adopt(f)
		return
	}
	short := ""
	if shorthand != nil {
		short = shorthand(path...)
	}
	if short != "" && (old.Kind == KindTable) != (f.Kind == KindTable) {
		if f.Kind == KindTable {
			whole := inTable(old, short)
			whole.Parent, v.byName[f.Name], v.Fields[slices.Index(v.Fields, old)] = v, whole, whole
			old = whole
		} else {
			f = inTable(f, short)
		}
	}
	if old.Kind != KindTable || f.Kind != KindTable {
		v.Replace(old, f)
		return
	}
	for _, field := range f.Fields {
		old.patchField(field, shorthand, path...)
	}
}

// inTable returns the table for which v stands: v is its only field, called short.
func inTable(v *Value, short string) *Value {
	t := DeriveTable(v, v.Name)
	v.Name = short
	t.Adopt(v)
	return t
}
