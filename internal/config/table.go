package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// row documents a key. The same rows make the reference page, find the key
// that was meant by an unknown one, and (in key) read the value.
type row struct {
	name string
	typ  string
	def  string // the default in words, or required
	doc  string
	also []string // what others call it; only for suggestions

	unless string // the key that takes the place of a required one
}

const required = "required"

// key is a row together with what reads its value into a T.
type key[T any] struct {
	row
	read func(*reader, *value, *T)
}

// table is a table of the file that is read into a T.
type table[T any] struct {
	header  string // as in the file: "[project]", "[[agent]]", "shutdown"
	doc     string
	example string
	keys    []key[T]
}

// read reads the table v.
func (t table[T]) read(r *reader, v *value, into *T) {
	if v.kind == isArray && strings.HasPrefix(t.header, "[") && v.parent.parent == nil {
		r.fail(v.at, v, "write "+t.header, "%s is an array, expected a table", r.label(v))
		return
	}
	if !r.want(v, isTable, "a table") {
		return
	}
	hints := map[string]bool{} // of unknown keys
	for _, field := range v.fields {
		hints[t.readField(r, field, into)] = true
	}
	for _, k := range t.keys {
		if hints[didYouMean(k.name)] && v.byName[k.name] == nil { // it is there, misspelled
			r.markFaulty(v)
			continue
		}
		switch {
		case k.def != required || v.byName[k.name] != nil || v.byName[k.unless] != nil:
		case t.header == "":
			r.fail(v.at, v, "write ["+k.name+"] with its keys", "the file has no table %s, expected one", k.name)
		default:
			r.fail(v.at, v, "", "%s without %s, expected one (%s)", t.header, k.name, k.typ)
		}
	}
}

// readField reads one key. Of one that is unknown it returns the hint.
func (t table[T]) readField(r *reader, field *value, into *T) (hint string) {
	for _, k := range t.keys {
		if k.name == field.name {
			k.read(r, field, into)
			return ""
		}
	}
	rows := make([]row, len(t.keys))
	for i, k := range t.keys {
		rows[i] = k.row
	}
	where := t.header
	if where == "" {
		where = "the file"
	}
	what := "key"
	tables := field.kind == isArray && len(field.elements) > 0 && field.elements[0].kind == isTable
	if t.header == "" && (field.kind == isTable || tables) {
		what = "table"
	}
	hint = r.meant(field.name, rows)
	r.fail(field.key, field, hint, "unknown %s %s in %s", what, spec.Quote(field.name), where)
	return hint
}

// maxListed is how many keys an error lists; of tables with more it names the page.
const maxListed = 5

// meant says which key was probably meant by name where only rows are known.
func (r *reader) meant(name string, rows []row) string {
	var names []string
	for _, k := range rows {
		names = append(names, k.name)
		for _, a := range k.also {
			if strings.EqualFold(a, name) {
				return "did you mean " + strconv.Quote(k.name) + "?"
			}
		}
	}
	if n := suggest.Nearest(name, names); n != "" {
		return "did you mean " + strconv.Quote(n) + "?"
	}
	var elsewhere []string
	for _, s := range r.known {
		if s.header != "" && slices.ContainsFunc(s.rows, func(k row) bool { return k.name == name }) {
			elsewhere = append(elsewhere, s.header)
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

// sub is the read function of a key whose value is a table.
func sub[T, U any](t table[U], field func(*T) *U) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) { t.read(r, v, field(into)) }
}
