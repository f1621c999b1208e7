package toml

import "slices"

// Join adds the fields of another table to v. Tables are joined field by field, arrays of
// tables are concatenated, and any other value replaces the old one and remembers it.
func (v *Value) Join(other *Value) {
	for _, f := range other.Fields {
		v.Put(f)
	}
}

// Put adds one field, as Join does.
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

// IsTables reports whether v is an array whose elements are all tables.
func (v *Value) IsTables() bool {
	return v.Kind == KindArray && !slices.ContainsFunc(v.Elements, func(e *Value) bool { return e.Kind != KindTable })
}

// Adopt adds a field to a table that has no field of that name.
func (v *Value) Adopt(f *Value) {
	f.Parent = v
	v.Fields = append(v.Fields, f)
	v.byName[f.Name] = f
}

// Replace replaces a field. The new one remembers the old one.
func (v *Value) Replace(old, f *Value) {
	f.Parent, f.Over = v, old
	v.Fields[slices.Index(v.Fields, old)] = f
	v.byName[f.Name] = f
}

// Remove removes a field and returns it; nil if there is none.
func (v *Value) Remove(name string) *Value {
	f := v.byName[name]
	if f != nil {
		delete(v.byName, name)
		v.Fields = slices.DeleteFunc(v.Fields, func(other *Value) bool { return other == f })
	}
	return f
}

// Extended returns a new array of the elements of old, which may be nil, and of more.
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

// patchField works like Put, but also merges a table with a value that is short for one.
// shorthand returns the key that the short value stands for; it may be nil.
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

// inTable returns a table whose only field is v, renamed to short.
func inTable(v *Value, short string) *Value {
	t := DeriveTable(v, v.Name)
	v.Name = short
	t.Adopt(v)
	return t
}
