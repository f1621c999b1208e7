package gascity

import (
	"path/filepath"
	"slices"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// packName is the name of the file of a pack. A pack is a directory with agents, providers,
// patches and orders for every city or rig that names it.
const packName = "pack.toml"

// Limits of packs. A pack counts once for the city and for each rig that names it.
const (
	MaxPackBytes = 4 * fileset.MaxTotal
	MaxPackDepth = 20
)

// packs reads the packs of a city and adds their content to its document.
type packs struct {
	*city
	sources map[string]*toml.Source // by path; nil for a file that cannot be used
	size    int                     // of all that was parsed
	remote  int                     // number of packs with a URL, which are not read
}

// origin tells where an agent comes from.
type origin struct {
	dir     string // of its pack, or of the city
	binding string // the name of its import; "" for none
}

// packRef is a reference to a pack.
type packRef struct {
	at      *toml.Value // the path
	base    string      // the directory that the path is relative to
	binding string      // the name of the import; "" for an include
	export  bool        // agents of its own imports get the same binding
	direct  bool        // only its own agents, without those of its packs
}

// pack is the content of a pack and of the packs that it includes and imports.
type pack struct {
	dir       string
	agents    []*toml.Value
	providers []*toml.Value
	layers    []layer // the last one has precedence
	requires  []*toml.Value
}

// expand adds the content of packs to the document of a city: agents for the city before its
// own, agents for rigs after them, and providers that the city lacks.
func (p *packs) expand(document *toml.Value) {
	p.joinOwn(document)
	own := document.Remove("agent")
	if own != nil && !own.IsTables() {
		document.Adopt(own) // elements reports it
		return
	}
	all := &toml.Value{Kind: toml.KindArray, Source: document.Source, Name: "agent"}
	var inline []*toml.Value
	if own != nil {
		all.At, all.Key, all.Over, inline = own.At, own.Key, own.Over, own.Elements
	}
	refs := append(p.included(below(document, "workspace", "includes"), document, p.dir),
		p.imported(document.Field("imports"), p.dir)...)
	members := p.scope(document, refs, nil)
	members = slices.DeleteFunc(members, func(a *toml.Value) bool {
		return isFallback(a) &&
			slices.ContainsFunc(inline, func(b *toml.Value) bool { return qualified(a) == qualified(b) })
	})
	members = append(members, inline...)
	p.layers = append(p.layers, layer{dir: p.dir})
	for _, rig := range tablesOf(document.Field("rigs")) {
		if toml.TextOf(rig, "name") == "" {
			continue
		}
		before := p.remote
		refs := append(p.included(rig.Field("includes"), document, p.dir), p.imported(rig.Field("imports"), p.dir)...)
		agents := p.scope(document, refs, rig)
		for _, key := range []string{"overrides", "patches"} {
			p.override(rig, key, agents, p.remote > before)
		}
		members = append(members, agents...)
	}
	p.put(document, all, members)
	if p.remote > 0 {
		p.dropPatches(document)
	}
}

func (p *packs) put(document, all *toml.Value, agents []*toml.Value) {
	for _, a := range agents {
		all.Append(a)
	}
	if len(agents) > 0 {
		document.Adopt(all)
	}
}

// tablesOf returns the elements of an array that are tables.
func tablesOf(array *toml.Value) (all []*toml.Value) {
	if array != nil && array.Kind == toml.KindArray {
		for _, e := range array.Elements {
			if e.Kind == toml.KindTable {
				all = append(all, e)
			}
		}
	}
	return all
}

// below returns the value at a path, or nil.
func below(v *toml.Value, path ...string) *toml.Value {
	for _, name := range path {
		if v == nil || v.Kind != toml.KindTable {
			return nil
		}
		v = v.Field(name)
	}
	return v
}

// joinOwn joins the pack.toml next to a city.toml, if there is one. The keys of city.toml
// take precedence.
func (p *packs) joinOwn(document *toml.Value) {
	if !p.g.CanRead() {
		return
	}
	own := p.document(filepath.Join(p.dir, packName), nil)
	if own == nil {
		return
	}
	p.schema.inspect(own, packName)
	p.meta(own)
	own.Fields = slices.DeleteFunc(own.Fields, func(f *toml.Value) bool {
		k := p.schema.tables[packName].key(f.Name)
		return k == nil || k.unused
	})
	named := toml.ByName(document.Field("agent"))
	agents := p.agentsOf(own, p.dir)
	for _, name := range []string{"pack", "agent"} {
		own.Remove(name)
	}
	agents = slices.DeleteFunc(agents, func(a *toml.Value) bool { return named[toml.TextOf(a, "name")] != nil })
	for _, f := range own.Fields {
		switch old := document.Field(f.Name); {
		case old == nil:
			document.Adopt(f)
		case old.Kind == toml.KindTable && f.Kind == toml.KindTable && f.Name == "patches":
			for _, g := range f.Fields { // patches of the pack come first
				if after := old.Remove(g.Name); after != nil && after.IsTables() && g.IsTables() {
					both := toml.Extended(g, after)
					both.Name = g.Name
					old.Adopt(both)
				} else if old.Adopt(g); after != nil {
					old.Put(after)
				}
			}
		case old.Kind == toml.KindTable && f.Kind == toml.KindTable:
			for _, g := range f.Fields {
				if old.Field(g.Name) == nil {
					old.Adopt(g)
				}
			}
		}
	}
	if len(agents) == 0 {
		return
	}
	all := document.Remove("agent")
	if all == nil {
		all = &toml.Value{Kind: toml.KindArray, Source: own.Source, Name: "agent"}
	}
	if all.IsTables() {
		agents = append(agents, all.Elements...)
		all.Elements = nil
	}
	p.put(document, all, agents)
}

// load reads a pack for a rig, or for the city if rig is nil. open are the directories of the
// packs that lead to it. It returns nil if the pack cannot be used.
func (p *packs) load(m packRef, rig *toml.Value, open []string) *pack {
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
		p.r.Fail(m.at, "remove one of the two", "the pack %s leads to itself, expected no cycle",
			spec.Quote(p.g.Show(dir)))
		return nil
	case len(open) == MaxPackDepth:
		p.r.Fail(m.at, "", "packs are nested more than %d levels deep, expected at most that", MaxPackDepth)
		return nil
	}
	document := p.document(filepath.Join(dir, packName), &m)
	if document == nil {
		return nil
	}
	p.schema.inspect(document, packName)
	for _, s := range tablesOf(document.Field("named_session")) {
		p.namedSession(s)
	}
	name, meta := p.meta(document)
	open = append(slices.Clip(open), real)
	all := &pack{dir: dir}
	var agents []*toml.Value
	for _, n := range append(p.included(below(meta, "includes"), document, dir),
		p.imported(document.Field("imports"), dir)...) {
		inner := p.load(n, rig, open)
		if inner == nil {
			continue
		}
		for _, a := range p.agentsFor(inner, n) {
			h := p.origins[a]
			if h.binding == "" || n.export {
				h.binding = n.binding
			}
			p.origins[a] = h
			agents = append(agents, a)
		}
		all.providers = append(all.providers, inner.providers...)
		all.requires = append(all.requires, inner.requires...)
		all.layers = append(all.layers, inner.layers...)
	}
	for _, a := range p.agentsOf(document, dir) {
		if rig != nil && toml.TextOf(a, "dir") == "" {
			a.Put(toml.CopyAs(rig.Field("name"), "dir"))
		}
		if list := below(meta, "city_agents"); list != nil && list.Kind == toml.KindArray && a.Field("scope") == nil {
			scope := "rig"
			if slices.ContainsFunc(list.Elements,
				func(e *toml.Value) bool { return e.Kind == toml.KindString && e.Text == toml.TextOf(a, "name") }) {
				scope = "city"
			}
			setText(a, list, "scope", scope)
		}
		agents = append(agents, a)
	}
	all.agents = p.patched(document, agents)
	if own := p.schema.tableField(document, "providers"); own != nil {
		all.providers = append(slices.Clone(own.Fields), all.providers...)
	}
	all.requires = append(all.requires, tablesOf(below(meta, "requires"))...)
	all.layers = append(all.layers, layer{dir: dir, pack: name, rig: rig})
	return all
}

// agentsFor returns the agents of a pack for a reference to it.
func (p *packs) agentsFor(l *pack, m packRef) []*toml.Value {
	if !m.direct {
		return l.agents
	}
	return slices.DeleteFunc(slices.Clone(l.agents), func(a *toml.Value) bool { return p.origins[a].dir != l.dir })
}

// patched applies the patches of a pack to its agents.
func (p *packs) patched(document *toml.Value, agents []*toml.Value) []*toml.Value {
	patches := document.Remove("patches")
	if patches == nil {
		return agents
	}
	t := toml.NewTable(document.Source, "", 0, nil)
	t.Adopt(patches)
	p.put(t, &toml.Value{Kind: toml.KindArray, Source: document.Source, Name: "agent"}, agents)
	s := toml.Named(p.schema.tables["[[agent]]"].section())
	s.Keys = []string{"name", "dir", "rig"}
	p.dropProviderPatches(t)
	p.r.Patch(t, []toml.Patchable{s})
	return agents
}

// scope returns the agents of packs for a rig, or for the city if rig is nil.
func (p *packs) scope(document *toml.Value, refs []packRef, rig *toml.Value) []*toml.Value {
	where := "city"
	if rig != nil {
		where = "rig"
	}
	type identity struct {
		toml.Spot
		binding string
	}
	seen := map[identity]bool{}
	var agents, requires []*toml.Value
	for _, m := range refs {
		l := p.load(m, rig, nil)
		if l == nil {
			continue
		}
		for _, a := range p.agentsFor(l, m) {
			if m.binding != "" {
				p.origins[a] = origin{p.origins[a].dir, m.binding}
			}
			// two packs may include the same third pack
			if id := (identity{a.Spot(), p.origins[a].binding}); !seen[id] {
				seen[id] = true
				agents = append(agents, a)
			}
		}
		requires = append(requires, l.requires...)
		for _, provider := range l.providers {
			if old := document.Field("providers"); old != nil && old.Kind != toml.KindTable {
				break // tablesIn reports it
			}
			if below(document, "providers", provider.Name) == nil {
				t := toml.NewTable(document.Source, "providers", document.At, nil)
				t.Adopt(provider)
				document.Put(t)
			}
		}
		for _, n := range l.layers {
			if !slices.Contains(p.layers, n) {
				p.layers = append(p.layers, n)
			}
		}
	}
	for _, q := range requires {
		if name := toml.TextOf(q, "agent"); toml.TextOf(q, "scope") == where &&
			!slices.ContainsFunc(agents, func(a *toml.Value) bool { return toml.TextOf(a, "name") == name }) {
			p.r.Fail(q, "include a pack that has it",
				"the pack requires an agent %s of the %s, and there is none", spec.Quote(name), where)
		}
	}
	agents = slices.DeleteFunc(agents, func(a *toml.Value) bool {
		s := a.Field("scope")
		if s == nil || !p.r.Want(s, toml.KindString, `"city" or "rig"`) {
			return false
		}
		if s.Text != "city" && s.Text != "rig" && s.Text != "" {
			p.r.Fail(s, spec.DidYouMean(s.Text, "city", "rig"), "scope is %s, expected city or rig",
				spec.Quote(s.Text))
		}
		return s.Text != "" && s.Text != where
	})
	return withoutFallbacks(agents)
}

// withoutFallbacks removes fallback agents if there is another agent of the same name.
func withoutFallbacks(agents []*toml.Value) []*toml.Value {
	best := map[string]*toml.Value{}
	for _, a := range agents {
		if name := toml.TextOf(a, "name"); best[name] == nil || isFallback(best[name]) && !isFallback(a) {
			best[name] = a
		}
	}
	return slices.DeleteFunc(agents,
		func(a *toml.Value) bool { return isFallback(a) && best[toml.TextOf(a, "name")] != a })
}

func isFallback(a *toml.Value) bool { return textIs(a, "fallback", toml.KindBool, "true") }
