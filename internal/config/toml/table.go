package toml

import (
	"cmp"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Row documents a key. Rows produce the reference page, the JSON Schema and the suggestions
// for unknown keys.
type Row struct {
	Name    string
	Type    string
	Default string // in words, or Required
	Doc     string
	Also    []string // other names for the key, only for suggestions
	Unless  string   // a key that makes this required one optional
}

// Required is the Default of a required key.
const Required = "required"

// Key is a Row and the function that reads the value into a T.
type Key[T any] struct {
	Name    string
	Type    string
	Default string
	Doc     string
	Also    []string
	Unless  string
	Read    func(*Reader, *Value, *T)
}

// Row returns the documentation of the key.
func (k Key[T]) Row() Row { return Row{k.Name, k.Type, k.Default, k.Doc, k.Also, k.Unless} }

// Table describes a table of the file that is read into a T.
type Table[T any] struct {
	Header  string // as in the file: "[project]", "[[agent]]", "shutdown"
	Doc     string
	Example string
	Keys    []Key[T]
}

// Read reads the table v.
func (t Table[T]) Read(r *Reader, v *Value, into *T) {
	if v.Kind == KindArray && strings.HasPrefix(t.Header, "[") && v.Parent.Parent == nil {
		r.Fail(v, "write "+t.Header, "%s is an array, expected a table", r.Label(v))
		return
	}
	if !r.Want(v, KindTable, "a table") {
		return
	}
	hints := map[string]bool{} // of unknown keys
	for _, field := range v.Fields {
		hints[t.readField(r, field, into)] = true
	}
	for _, k := range t.Keys {
		if hints[didYouMean(k.Name)] && v.Field(k.Name) == nil { // present, but misspelled
			r.markFaulty(v)
			continue
		}
		switch {
		case k.Default != Required || v.Field(k.Name) != nil || v.Field(k.Unless) != nil:
		case t.Header == "":
			r.Fail(v, "write ["+k.Name+"] with its keys", "the file has no table %s, expected one", k.Name)
		default:
			r.Fail(v, "", "%s without %s, expected one (%s)", t.Header, k.Name, k.Type)
		}
	}
}

// readField reads one key. For an unknown key it returns the hint.
func (t Table[T]) readField(r *Reader, field *Value, into *T) (hint string) {
	for _, k := range t.Keys {
		if k.Name == field.Name {
			k.Read(r, field, into)
			return ""
		}
	}
	what := "key"
	tables := field.Kind == KindArray && len(field.Elements) > 0 && field.Elements[0].Kind == KindTable
	if t.Header == "" && (field.Kind == KindTable || tables) {
		what = "table"
	}
	hint = r.meant(field.Name, t.Section().Rows)
	r.FailKey(field, hint, "unknown %s %s in %s", what, spec.Quote(field.Name), cmp.Or(t.Header, "the file"))
	return hint
}

func didYouMean(key string) string { return "did you mean " + spec.Quote(key) + "?" }

// maxListed is the largest number of keys that an error lists; for more it names the page.
const maxListed = 5

// meant returns a hint for an unknown key of a table with some rows.
func (r *Reader) meant(name string, rows []Row) string {
	var names []string
	for _, k := range rows {
		names = append(names, k.Name)
		for _, a := range k.Also {
			if strings.EqualFold(a, name) {
				return didYouMean(k.Name)
			}
		}
	}
	if hint := spec.DidYouMean(name, names...); hint != "" {
		return hint
	}
	var elsewhere []string
	for _, s := range r.known {
		if row := s.Row(name); s.Header == "" && row != nil && !strings.Contains(row.Type, "table") {
			return "it belongs before the first table"
		}
		if s.Header != "" && slices.ContainsFunc(s.Rows, func(k Row) bool { return k.Name == name }) {
			elsewhere = append(elsewhere, s.Header)
		}
	}
	if len(elsewhere) > 0 {
		return "it belongs in " + strings.Join(elsewhere, " or ")
	}
	if len(names) > maxListed && r.page != "" {
		return r.page + " lists all keys"
	}
	return "expected one of " + strings.Join(names, ", ")
}

// Tables returns the elements of an array of tables.
func (r *Reader) Tables(v *Value) (tables []*Value) {
	if v.Kind == KindTable {
		r.FailKey(v, "write [["+v.path()+"]]", "%s is a single table, expected an array of tables", v.path())
	} else if r.Want(v, KindArray, "an array of tables") {
		for _, e := range v.Elements {
			if r.Want(e, KindTable, "a table") {
				tables = append(tables, e)
			}
		}
	}
	return tables
}

// Sub returns the read function of a key whose value is a table.
func Sub[T, U any](t Table[U], field func(*T) *U) func(*Reader, *Value, *T) {
	return func(r *Reader, v *Value, into *T) { t.Read(r, v, field(into)) }
}

// Section is a Table without its Go type.
type Section struct {
	Header, Doc, Example string
	Rows                 []Row
}

// Section returns the table without its Go type.
func (t Table[T]) Section() Section {
	s := Section{Header: t.Header, Doc: t.Doc, Example: t.Example}
	for _, k := range t.Keys {
		s.Rows = append(s.Rows, k.Row())
	}
	return s
}

// Row returns the row of a key, or nil.
func (s Section) Row(name string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Name == name {
			return &s.Rows[i]
		}
	}
	return nil
}

// takes reports whether the row of a key names a kind as its type.
func (s Section) takes(name, kind string) bool {
	r := s.Row(name)
	return r != nil && strings.Contains(r.Type, kind)
}
