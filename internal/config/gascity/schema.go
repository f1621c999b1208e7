package gascity

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// schema compares the tables of a city with those that Gas City has, and reports the keys that
// are unknown or not supported.
type schema struct {
	r      *toml.Reader
	tables map[string]table       // by header
	unused map[string]*ignoredKey // unsupported keys that were reported, by table and key
}

// ignoredKey is an unsupported key. It is reported once, at its first place.
type ignoredKey struct {
	notice *toml.Notice
	others int
}

func newSchema(r *toml.Reader) *schema {
	s := &schema{r: r, tables: map[string]table{}, unused: map[string]*ignoredKey{}}
	for _, t := range tables() {
		s.tables[t.header] = t
	}
	return s
}

// inspect reports unsupported and unknown keys of a table.
func (s *schema) inspect(v *toml.Value, header string) {
	t := s.tables[header]
	for _, f := range v.Fields {
		switch k := t.key(f.Name); {
		case k == nil:
			var names []string
			for _, k := range t.keys {
				names = append(names, k.Name)
			}
			where := cmp.Or(header, "the file")
			if hint := spec.DidYouMean(f.Name, names...); hint != "" {
				s.r.FailKey(f, hint, "unknown key %s in %s", spec.Quote(f.Name), where)
			} else {
				s.r.Notice(f, "%s is not a key of %s, and is ignored", toml.BareKey(f.Name), where)
			}
		case k.unused:
			if key := header + " " + f.Name; !s.countRepeat(key) { // avoids computing the path of a repeated key
				s.notSupported(f, key, "%s is not supported: %s", toml.KeyPath(f), strings.ReplaceAll(k.Doc, "`", ""))
			}
		}
	}
}

// notSupported reports an unsupported key once for all its places.
func (s *schema) notSupported(f *toml.Value, key, format string, args ...any) {
	if !s.countRepeat(key) {
		s.unused[key] = &ignoredKey{notice: s.r.Notice(f, format, args...)}
	}
}

// countRepeat counts a key that was reported before, and reports whether it was.
func (s *schema) countRepeat(key string) bool {
	u := s.unused[key]
	if u != nil {
		u.others++
	}
	return u != nil
}

// tableField returns a field that is a table, or nil.
func (s *schema) tableField(v *toml.Value, name string) *toml.Value {
	f := v.Field(name)
	if f == nil || !s.r.Want(f, toml.KindTable, "a table") {
		return nil
	}
	return f
}

// table works like tableField and inspects the table.
func (s *schema) table(v *toml.Value, name string) *toml.Value {
	f := s.tableField(v, name)
	if f != nil {
		s.inspect(f, "["+name+"]")
	}
	return f
}

// tablesIn returns a table of tables and inspects those, or returns nil.
func (s *schema) tablesIn(v *toml.Value, name string) *toml.Value {
	t := s.tableField(v, name)
	if t != nil {
		for _, f := range t.Fields {
			if s.r.Want(f, toml.KindTable, "a table") {
				s.inspect(f, "["+name+".*]")
			}
		}
	}
	return t
}

// addRepeats adds to each report of an unsupported key how many more places have it.
func (s *schema) addRepeats() {
	for _, u := range s.unused {
		if u.notice != nil && u.others > 0 {
			u.notice.Message += fmt.Sprintf(" (and %d more)", u.others)
		}
	}
}
