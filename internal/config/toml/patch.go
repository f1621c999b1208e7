package toml

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Patchable describes an array of tables whose elements can be patched.
type Patchable struct {
	Section
	PatchHeader string                // the header of the patches
	Keys        []string              // that identify the target of a patch; the first one is required
	Identity    func(*Value) string   // the target of a patch
	Names       func(*Value) []string // names of an element in patches; the first element that has a name counts
	// Shorthand returns the key that a short value at a path below an element stands for, or
	// "". It may be nil.
	Shorthand func(path ...string) string
}

// name returns the key of the array.
func (p Patchable) name() string { return strings.Trim(p.Header, "[]") }

// Named returns a Patchable whose elements are identified by the key name. It has no shorthands.
func Named(s Section) Patchable {
	return Patchable{
		Section:     s,
		PatchHeader: "[[patches." + strings.Trim(s.Header, "[]") + "]]",
		Keys:        []string{"name"},
		Identity:    func(v *Value) string { return TextOf(v, "name") },
		Names:       func(v *Value) []string { return []string{TextOf(v, "name")} },
	}
}

// Patch removes the patches from a document and applies them.
func (r *Reader) Patch(document *Value, known []Patchable) {
	all := document.Remove("patches")
	if all == nil || !r.Want(all, KindTable, "a table") {
		return
	}
	var tables []Row
	for _, p := range known {
		tables = append(tables, Row{Name: p.name(), Also: []string{p.name() + "s", strings.TrimSuffix(p.name(), "s")}})
	}
	for _, patches := range all.Fields {
		at := slices.IndexFunc(known, func(p Patchable) bool { return p.name() == patches.Name })
		if at < 0 {
			r.FailKey(patches, r.meant(patches.Name, tables),
				"unknown table %s in [patches]", spec.Quote(patches.Name))
			continue
		}
		targets := ByIdentity(document.Field(patches.Name), known[at].Names)
		for _, p := range r.Tables(patches) {
			r.PatchOne(p, targets, known[at])
		}
	}
}

// ByName returns the named elements of an array of tables by name. Of several with the same
// name it has the first; the others are errors.
func ByName(array *Value) map[string]*Value {
	return ByIdentity(array, func(v *Value) []string { return []string{TextOf(v, "name")} })
}

// ByIdentity returns the elements of an array of tables by all names that names returns for
// them. Of several with the same name it has the first.
func ByIdentity(array *Value, names func(*Value) []string) map[string]*Value {
	all := map[string]*Value{}
	if array == nil || array.Kind != KindArray {
		return all
	}
	for _, e := range array.Elements {
		if e.Kind != KindTable {
			continue
		}
		for _, name := range names(e) {
			if name != "" && all[name] == nil {
				all[name] = e
			}
		}
	}
	return all
}

// PatchOne applies one patch to its target.
func (r *Reader) PatchOne(p *Value, targets map[string]*Value, s Patchable) {
	what, header := strings.TrimSuffix(s.name(), "s"), s.PatchHeader
	name := p.Field(s.Keys[0])
	if name == nil {
		r.Fail(p, "", "%s without %s, expected one (string)", header, s.Keys[0])
		return
	}
	if _, ok := r.Text(name, "a string"); !ok {
		return
	}
	identity := s.Identity(p)
	target := targets[identity]
	if target == nil {
		hint := ""
		if r.Count() < maxSuggestions {
			hint = spec.DidYouMean(identity, slices.Sorted(maps.Keys(targets))...)
		}
		r.Fail(name, hint, "no %s is called %s, expected one to change", what, spec.Quote(identity))
		return
	}
	// Removals come first and additions last, in whatever order the keys are written.
	var remove, set, add []func()
	for _, f := range p.Fields {
		whole, adds := strings.CutSuffix(f.Name, "_append")
		table, removes := strings.CutSuffix(f.Name, "_remove")
		switch {
		case slices.Contains(s.Keys, f.Name):
		case s.Row(f.Name) != nil:
			set = append(set, func() { target.patchField(f, s.Shorthand) })
		case adds && s.takes(whole, "array"):
			add = append(add, func() { r.appendTo(target, whole, f) })
		case removes && s.takes(table, "table"):
			remove = append(remove, func() { r.removeFrom(target, table, f) })
		default:
			r.FailKey(f, r.meant(f.Name, slices.Concat(s.Rows, s.patchRows())), "unknown key %s in %s",
				spec.Quote(f.Name), header)
		}
	}
	for _, change := range slices.Concat(remove, set, add) {
		change()
	}
}

// maxSuggestions limits the number of unknown names for which a similar one is searched.
const maxSuggestions = 100

// patchRows returns the rows of keys that only patches have: KEY_append for lists and
// KEY_remove for tables.
func (s Section) patchRows() (rows []Row) {
	for _, r := range s.Rows {
		if s.takes(r.Name, "array") {
			rows = append(rows, Row{Name: r.Name + "_append", Doc: "elements to add to the end of " + r.Name})
		}
		if s.takes(r.Name, "table") {
			rows = append(rows, Row{Name: r.Name + "_remove", Doc: "keys to remove from " + r.Name})
		}
	}
	return rows
}

func (r *Reader) appendTo(target *Value, key string, more *Value) {
	if !r.Want(more, KindArray, "an array") {
		return
	}
	old := target.Field(key)
	if old != nil && old.Kind != KindArray {
		r.Fail(more, "write "+key+" as an array there", "%s is %v in %s:%d, expected an array to append to",
			key, old.Kind, old.Source.Name, old.Line())
		return
	}
	v := Extended(old, more)
	v.Name = key
	if old == nil {
		target.Adopt(v)
	} else {
		target.Replace(old, v)
	}
}

func (r *Reader) removeFrom(target *Value, key string, names *Value) {
	if !r.Want(names, KindArray, "an array of strings") {
		return
	}
	table := target.Field(key)
	if table != nil && table.Kind != KindTable {
		r.FailKey(names, "", "%s is %v, expected a table to remove from", key, table.Kind)
		return
	}
	for _, n := range names.Elements {
		if !r.Want(n, KindString, "a string") {
			continue
		}
		var gone *Value
		if table != nil {
			gone = table.Remove(n.Text)
		}
		if gone == nil {
			hint := ""
			if table != nil && r.Count() < maxSuggestions {
				hint = spec.DidYouMean(n.Text, table.fieldNames()...)
			}
			r.Fail(n, hint, "there is no %s in %s, expected one to remove", spec.Quote(n.Text), key)
			continue
		}
		table.Gone = append(table.Gone, removal{gone, n})
	}
}
