package config

import (
	"path/filepath"
	"slices"

	"github.com/coppice-dev/coppice/internal/spec"
)

// PackName is the file of a pack: a directory with agents, providers, patches
// and orders for each city, or rig of a city, that names it.
const PackName = "pack.toml"

// Bounds of what packs come to: each is read anew for the city and for each rig.
const (
	maxPackBytes = 4 * MaxTotal
	maxPackDepth = 20
)

// packs reads the packs of a city, and puts what they have into its document.
type packs struct {
	*city
	sources map[string]*source // by path; nil for a file that cannot be used
	size    int                // of all that was parsed
	remote  int                // packs that are not in a directory
}

// home is where an agent comes from.
type home struct {
	dir     string // of its pack, or of the city
	binding string // the name of the import that it came by; "" for none
}

// mention is where a pack is named.
type mention struct {
	at      *value // its path
	base    string // what that is relative to
	binding string // the name of the import; "" for an include
	export  bool   // what it imports itself comes by the same name
	direct  bool   // what it includes or imports itself is not wanted
}

// pack is what a pack comes to, with those that it includes and imports.
type pack struct {
	dir       string
	agents    []*value
	providers []*value
	layers    []layer // the last one has precedence
	requires  []*value
}

// expand adds what is in packs to the document of a city: agents for the city
// before its own, those for rigs behind them, and providers that the city does not have.
func (p *packs) expand(document *value) {
	p.beside(document)
	own := document.remove("agent")
	if own != nil && !own.isTables() {
		document.adopt(own) // which is told later
		return
	}
	all := &value{kind: isArray, src: document.src, name: "agent"}
	if own != nil {
		all.at, all.key, all.over = own.at, own.key, own.over
	}
	var inline []*value
	if own != nil {
		inline = own.elements
	}
	refs := append(p.included(below(document, "workspace", "includes"), document, p.dir),
		p.imported(document.byName["imports"], p.dir)...)
	there := p.scope(document, refs, nil)
	there = slices.DeleteFunc(there, func(a *value) bool {
		return textIs(a, "fallback", isBool, "true") &&
			slices.ContainsFunc(inline, func(b *value) bool { return qualified(a) == qualified(b) })
	})
	there = append(there, inline...)
	p.layers = append(p.layers, layer{dir: p.dir})
	for _, rig := range tablesOf(document.byName["rigs"]) {
		if textOf(rig, "name") == "" {
			continue
		}
		before := p.remote
		refs := append(p.included(rig.byName["includes"], document, p.dir), p.imported(rig.byName["imports"], p.dir)...)
		agents := p.scope(document, refs, rig)
		for _, key := range []string{"overrides", "patches"} {
			p.override(rig, key, agents, p.remote > before)
		}
		there = append(there, agents...)
	}
	p.put(document, all, there)
	if p.remote > 0 {
		p.dropPatches(document)
	}
}

func (p *packs) put(document, all *value, agents []*value) {
	for _, a := range agents {
		a.parent = all
		all.append(a)
	}
	if len(agents) > 0 {
		document.adopt(all)
	}
}

// tablesOf are the elements of an array that are tables.
func tablesOf(array *value) (all []*value) {
	if array != nil && array.kind == isArray {
		for _, e := range array.elements {
			if e.kind == isTable {
				all = append(all, e)
			}
		}
	}
	return all
}

// below is the value at a path, or nil.
func below(v *value, path ...string) *value {
	for _, name := range path {
		if v == nil || v.kind != isTable {
			return nil
		}
		v = v.byName[name]
	}
	return v
}

// beside joins the pack that the directory of a city is itself, if it has a
// pack.toml: what city.toml says has precedence.
func (p *packs) beside(document *value) {
	if !p.g.canRead() {
		return
	}
	own := p.document(filepath.Join(p.dir, PackName), nil)
	if own == nil {
		return
	}
	p.inspect(own, PackName)
	p.meta(own)
	own.fields = slices.DeleteFunc(own.fields, func(f *value) bool {
		k := p.tables[PackName].key(f.name)
		return k == nil || k.unused
	})
	named := byName(document.byName["agent"])
	agents := p.agentsOf(own, p.dir)
	for _, name := range []string{"pack", "agent"} {
		own.remove(name)
	}
	agents = slices.DeleteFunc(agents, func(a *value) bool { return named[textOf(a, "name")] != nil })
	for _, f := range own.fields {
		switch old := document.byName[f.name]; {
		case old == nil:
			document.adopt(f)
		case old.kind == isTable && f.kind == isTable && f.name == "patches":
			for _, g := range f.fields { // first those of the pack
				if after := old.remove(g.name); after != nil && after.isTables() && g.isTables() {
					old.adopt(extended(g, after).called(g.name))
				} else if old.adopt(g); after != nil {
					old.put(after)
				}
			}
		case old.kind == isTable && f.kind == isTable:
			for _, g := range f.fields {
				if old.byName[g.name] == nil {
					old.adopt(g)
				}
			}
		}
	}
	if len(agents) == 0 {
		return
	}
	all := document.remove("agent")
	if all == nil {
		all = &value{kind: isArray, src: own.src, name: "agent"}
	}
	if all.isTables() {
		agents = append(agents, all.elements...)
		all.elements = nil
	}
	p.put(document, all, agents)
}

// called gives a value another name.
func (v *value) called(name string) *value {
	v.name = name
	return v
}

// load reads a pack for a rig, or with none for the city. Open are the
// directories of those that lead to it. It is nil if it cannot be used.
func (p *packs) load(m mention, rig *value, open []string) *pack {
	dir, ok := p.find(m)
	if !ok {
		return nil
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	switch {
	case slices.Contains(open, real):
		p.r.fail(m.at.at, m.at, "remove one of the two", "the pack %s leads to itself, expected no cycle",
			spec.Quote(p.g.show(dir)))
		return nil
	case len(open) == maxPackDepth:
		p.r.fail(m.at.at, m.at, "", "packs in packs in packs, %d deep, expected less", maxPackDepth)
		return nil
	}
	document := p.document(filepath.Join(dir, PackName), &m)
	if document == nil {
		return nil
	}
	p.inspect(document, PackName)
	for _, s := range tablesOf(document.byName["named_session"]) {
		p.namedSession(s)
	}
	name, meta := p.meta(document)
	open = append(slices.Clip(open), real)
	all := &pack{dir: dir}
	var agents []*value
	for _, n := range append(p.included(below(meta, "includes"), document, dir),
		p.imported(document.byName["imports"], dir)...) {
		inner := p.load(n, rig, open)
		if inner == nil {
			continue
		}
		for _, a := range p.wanted(inner, n) {
			h := p.homes[a]
			if h.binding == "" || n.export {
				h.binding = n.binding
			}
			p.homes[a] = h
			agents = append(agents, a)
		}
		all.providers = append(all.providers, inner.providers...)
		all.requires = append(all.requires, inner.requires...)
		all.layers = append(all.layers, inner.layers...)
	}
	for _, a := range p.agentsOf(document, dir) {
		if rig != nil && textOf(a, "dir") == "" {
			a.put(copyOf(rig.byName["name"], "dir"))
		}
		if list := below(meta, "city_agents"); list != nil && list.kind == isArray && a.byName["scope"] == nil {
			forCity := slices.ContainsFunc(list.elements,
				func(e *value) bool { return e.kind == isString && e.text == textOf(a, "name") })
			a.put(made(list, isString, "scope", map[bool]string{true: "city", false: "rig"}[forCity]))
		}
		agents = append(agents, a)
	}
	all.agents = p.patched(document, agents)
	if own := p.only(document, "providers"); own != nil {
		all.providers = append(slices.Clone(own.fields), all.providers...)
	}
	all.requires = append(all.requires, tablesOf(below(meta, "requires"))...)
	all.layers = append(all.layers, layer{dir: dir, pack: name, rig: rig})
	return all
}

// wanted are the agents of a pack that is named somewhere.
func (p *packs) wanted(l *pack, m mention) []*value {
	if !m.direct {
		return l.agents
	}
	return slices.DeleteFunc(slices.Clone(l.agents), func(a *value) bool { return p.homes[a].dir != l.dir })
}

// patched are agents with the patches of their pack, which calls them by name.
func (p *packs) patched(document *value, agents []*value) []*value {
	patches := document.remove("patches")
	if patches == nil {
		return agents
	}
	t := newTable(document.src, "", 0, nil)
	t.adopt(patches)
	p.put(t, &value{kind: isArray, src: document.src, name: "agent"}, agents)
	s := named(p.tables["[[agent]]"].section())
	s.keys = []string{"name", "dir", "rig"}
	p.dropProviderPatches(t)
	p.r.patch(t, []patchable{s})
	return agents
}

// scope are the agents that packs have for a rig, or with none for the city.
func (p *packs) scope(document *value, refs []mention, rig *value) []*value {
	where := "city"
	if rig != nil {
		where = "rig"
	}
	type identity struct {
		spot
		binding string
	}
	seen := map[identity]bool{}
	var agents, requires []*value
	for _, m := range refs {
		l := p.load(m, rig, nil)
		if l == nil {
			continue
		}
		for _, a := range p.wanted(l, m) {
			if m.binding != "" {
				p.homes[a] = home{p.homes[a].dir, m.binding}
			}
			// two packs may include the same third one
			if id := (identity{spot{a.src, a.at}, p.homes[a].binding}); !seen[id] {
				seen[id] = true
				agents = append(agents, a)
			}
		}
		requires = append(requires, l.requires...)
		for _, provider := range l.providers {
			if old := document.byName["providers"]; old != nil && old.kind != isTable {
				break // which is told later
			}
			if below(document, "providers", provider.name) == nil {
				t := newTable(document.src, "providers", document.at, nil)
				t.adopt(provider)
				document.put(t)
			}
		}
		for _, n := range l.layers {
			if !slices.Contains(p.layers, n) {
				p.layers = append(p.layers, n)
			}
		}
	}
	for _, q := range requires {
		if name := textOf(q, "agent"); textOf(q, "scope") == where &&
			!slices.ContainsFunc(agents, func(a *value) bool { return textOf(a, "name") == name }) {
			p.r.fail(q.at, q, "include a pack that has it",
				"the pack requires an agent %s of the %s, and there is none", spec.Quote(name), where)
		}
	}
	agents = slices.DeleteFunc(agents, func(a *value) bool {
		s := a.byName["scope"]
		if s == nil || !p.r.want(s, isString, `"city" or "rig"`) {
			return false
		}
		if s.text != "city" && s.text != "rig" && s.text != "" {
			p.r.fail(s.at, s, meantOneOf(s.text, "city", "rig"), "scope is %s, expected city or rig",
				spec.Quote(s.text))
		}
		return s.text != "" && s.text != where
	})
	return withoutFallbacks(agents)
}

// withoutFallbacks leaves out agents for want of a better one where there is
// one of that name.
func withoutFallbacks(agents []*value) []*value {
	fallback := func(a *value) bool { return textIs(a, "fallback", isBool, "true") }
	best := map[string]*value{}
	for _, a := range agents {
		if name := textOf(a, "name"); best[name] == nil || fallback(best[name]) && !fallback(a) {
			best[name] = a
		}
	}
	return slices.DeleteFunc(agents, func(a *value) bool { return fallback(a) && best[textOf(a, "name")] != a })
}

// override changes the agents that packs have for a rig.
func (p *packs) override(rig *value, key string, agents []*value, remote bool) {
	all := rig.byName[key]
	if all == nil || !p.r.want(all, isArray, "an array of tables") {
		return
	}
	array := &value{kind: isArray, elements: agents}
	s := named(p.tables["[[agent]]"].section())
	s.by, s.keys = "[[rigs."+key+"]]", []string{"agent"}
	s.identity = func(v *value) string { return textOf(v, "agent") }
	targets := byAnswer(array, s.answers)
	for _, o := range tablesOf(all) {
		if remote && targets[s.identity(o)] == nil {
			continue // it is in a pack that was not read
		}
		p.r.patchOne(o, targets, s)
	}
}

// dropPatches names the patches of agents that may be in packs that were not read.
func (p *packs) dropPatches(document *value) {
	array := below(document, "patches", "agent")
	if array == nil || array.kind != isArray {
		return
	}
	s := p.patches()[0]
	targets := byAnswer(document.byName["agent"], s.answers)
	array.elements = slices.DeleteFunc(array.elements, func(e *value) bool {
		lost := e.kind == isTable && textOf(e, "name") != "" && targets[s.identity(e)] == nil
		if lost {
			p.r.notice(e.byName["name"], "no agent is called %s in what was read; it may be in one "+
				"of the packs that are not", spec.Quote(s.identity(e)))
		}
		return lost
	})
}
