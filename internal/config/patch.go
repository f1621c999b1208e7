package config

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// patchable are elements of an array of tables that can be patched.
type patchable struct {
	section
	by       string                // the header of the patches
	keys     []string              // that say whom a patch is for; the first one has to be there
	identity func(*value) string   // whom a patch is for
	answers  func(*value) []string // what an element is called in patches; a name counts for the first that has it
	// shorthand returns the key of the table for which a value at a path below an element stands;
	// "" where there is none. It may be nil.
	shorthand func(path ...string) string
}

// name is the key of the array. It is "" if they lack it.
func (p patchable) name() string { return strings.Trim(p.header, "[]") }

func named(s section) patchable {
	return patchable{section: s, by: "[[patches." + strings.Trim(s.header, "[]") + "]]", keys: []string{"name"},
		identity: func(v *value) string { return textOf(v, "name") },
		answers:  func(v *value) []string { return []string{textOf(v, "name")} },
	}
}

// patch applies the patches of a document, which has none afterwards.
func (r *reader) patch(document *value, known []patchable) {
	all := document.remove("patches")
	if all == nil || !r.want(all, isTable, "a table") {
		return
	}
	var tables []row
	for _, p := range known {
		tables = append(tables, row{name: p.name(), also: []string{p.name() + "s", strings.TrimSuffix(p.name(), "s")}})
	}
	for _, patches := range all.fields {
		at := slices.IndexFunc(known, func(p patchable) bool { return p.name() == patches.name })
		if at < 0 {
			r.fail(patches.key, patches, r.meant(patches.name, tables),
				"unknown table %s in [patches]", spec.Quote(patches.name))
			continue
		}
		if patches.kind == isTable {
			r.fail(patches.key, patches, "write [[patches."+patches.name+"]]",
				"patches.%s is a single table, expected an array of tables", patches.name)
			continue
		}
		if !r.want(patches, isArray, "an array of tables") {
			continue
		}
		targets := byAnswer(document.byName[patches.name], known[at].answers)
		for _, p := range patches.elements {
			if r.want(p, isTable, "a table") {
				r.patchOne(p, targets, known[at])
			}
		}
	}
}

// byName are the elements of an array of tables that have a name. The first
// one of a name counts: the others are errors.
func byName(array *value) map[string]*value {
	return byAnswer(array, func(v *value) []string { return []string{textOf(v, "name")} })
}

func byAnswer(array *value, answers func(*value) []string) map[string]*value {
	all := map[string]*value{}
	if array == nil || array.kind != isArray {
		return all
	}
	for _, e := range array.elements {
		if e.kind != isTable {
			continue
		}
		for _, name := range answers(e) {
			if name != "" && all[name] == nil {
				all[name] = e
			}
		}
	}
	return all
}

func (r *reader) patchOne(p *value, targets map[string]*value, s patchable) {
	what, header := strings.TrimSuffix(s.name(), "s"), s.by
	name := p.byName[s.keys[0]]
	if name == nil {
		r.fail(p.at, p, "", "%s without %s, expected one (string)", header, s.keys[0])
		return
	}
	if _, ok := r.text(name, "a string"); !ok {
		return
	}
	identity := s.identity(p)
	target := targets[identity]
	if target == nil {
		hint := ""
		if len(r.errs) < maxSuggestions {
			var names []string
			for n := range targets {
				names = append(names, n)
			}
			slices.Sort(names)
			if near := suggest.Nearest(identity, names); near != "" {
				hint = "did you mean " + spec.Quote(near) + "?"
			}
		}
		r.fail(name.at, name, hint, "no %s is called %s, expected one to change", what, spec.Quote(identity))
		return
	}
	// What is removed goes first and what is appended comes last, in whatever order they are written.
	var remove, set, add []func()
	for _, f := range p.fields {
		whole, adds := strings.CutSuffix(f.name, "_append")
		table, removes := strings.CutSuffix(f.name, "_remove")
		switch {
		case slices.Contains(s.keys, f.name):
		case s.row(f.name) != nil:
			set = append(set, func() { target.amend(f, s.shorthand) })
		case adds && s.takes(whole, "array"):
			add = append(add, func() { r.appendTo(target, whole, f) })
		case removes && s.takes(table, "table"):
			remove = append(remove, func() { r.removeFrom(target, table, f) })
		default:
			r.fail(f.key, f, r.meant(f.name, s.patchRows()), "unknown key %s in %s", spec.Quote(f.name), header)
		}
	}
	for _, change := range slices.Concat(remove, set, add) {
		change()
	}
}

// maxSuggestions bounds the comparisons of unknown names with all that there are.
const maxSuggestions = 100

// row is that of a key, or nil.
func (s section) row(name string) *row {
	for i := range s.rows {
		if s.rows[i].name == name {
			return &s.rows[i]
		}
	}
	return nil
}

// takes reports whether the value of a key may be of a kind, in the words of its row.
func (s section) takes(name, kind string) bool {
	r := s.row(name)
	return r != nil && strings.Contains(r.typ, kind)
}

// patchRows are all keys of a patch, for suggestions.
func (s section) patchRows() []row {
	rows := slices.Clone(s.rows)
	for _, r := range s.rows {
		if s.takes(r.name, "array") {
			rows = append(rows, row{name: r.name + "_append"})
		}
		if s.takes(r.name, "table") {
			rows = append(rows, row{name: r.name + "_remove"})
		}
	}
	return rows
}

func (r *reader) appendTo(target *value, key string, more *value) {
	if !r.want(more, isArray, "an array") {
		return
	}
	old := target.byName[key]
	if old != nil && old.kind != isArray {
		line, _ := old.src.position(old.at)
		r.fail(more.at, more, "write "+key+" as an array there", "%s is %v in %s:%d, expected an array to append to",
			key, old.kind, old.src.name, line)
		return
	}
	v := extended(old, more)
	v.name = key
	if old == nil {
		target.adopt(v)
	} else {
		target.replace(old, v)
	}
}

func (r *reader) removeFrom(target *value, key string, names *value) {
	if !r.want(names, isArray, "an array of strings") {
		return
	}
	table := target.byName[key]
	if table != nil && table.kind != isTable {
		r.fail(names.key, names, "", "%s is %v, expected a table to remove from", key, table.kind)
		return
	}
	for _, n := range names.elements {
		if !r.want(n, isString, "a string") {
			continue
		}
		var gone *value
		if table != nil {
			gone = table.remove(n.text)
		}
		if gone == nil {
			var there []string
			if table != nil && len(r.errs) < maxSuggestions {
				for _, f := range table.fields {
					there = append(there, f.name)
				}
			}
			hint := ""
			if near := suggest.Nearest(n.text, there); near != "" {
				hint = "did you mean " + spec.Quote(near) + "?"
			}
			r.fail(n.at, n, hint, "there is no %s in %s, expected one to remove", spec.Quote(n.text), key)
			continue
		}
		table.gone = append(table.gone, removal{gone, n})
	}
}
