package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// CityName is what Find looks for where there is no coppice.toml: the file of a
// Gas City, of which the part about agents is read.
const CityName = "city.toml"

// city makes of a city.toml the document that a coppice.toml would be: the
// same tables read both, and every value keeps its place.
type city struct {
	r         *reader
	dir       string // of the file, absolute
	name      string
	tables    map[string]cityTable // by header
	workspace *value               // these may be nil
	providers *value
	session   *value
	interval  *value // patrol_interval
	rigs      map[string]*value
	homes     map[*value]home   // of agents that are in packs
	layers    []layer           // of orders
	formulas  map[string]*value // files of formulas; nil for what is none
	g         *gatherer
	names     map[string]string      // what agents are called, by their identity
	foreign   map[string]bool        // providers of sessions that were named
	unused    map[string]*ignoredKey // what is not supported, by table and key
	template  *regexp.Regexp         // what is replaced in texts
}

// ignoredKey is a key that is not supported: it is named where it is first.
type ignoredKey struct {
	notice *Notice
	others int
}

// translation is the meaning of a file of another program.
type translation struct {
	document *value      // the coppice.toml that means the same
	orders   []orderFile // which are not in it
}

// translateCity makes of the document of a city.toml in a directory what it means here.
func translateCity(r *reader, document *value, dir string, g *gatherer) *translation {
	c := newCity(r, dir)
	c.gather(document, g)
	return c.translate(document)
}

func newCity(r *reader, dir string) *city {
	c := &city{
		r: r, dir: dir, tables: map[string]cityTable{}, rigs: map[string]*value{},
		homes: map[*value]home{}, names: map[string]string{}, foreign: map[string]bool{},
		unused: map[string]*ignoredKey{}, formulas: map[string]*value{},
		template: regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`),
	}
	for _, t := range cityTables() {
		c.tables[t.header] = t
	}
	return c
}

// gather adds to a document what is in packs, and applies its patches.
func (c *city) gather(document *value, g *gatherer) {
	c.g = g
	c.dropProviderPatches(document)
	(&packs{city: c, sources: map[string]*source{}}).expand(document)
	c.r.patch(document, c.patches())
}

func (c *city) translate(document *value) *translation {
	r := c.r
	c.inspect(document, "")
	c.workspace, c.session = c.table(document, "workspace"), c.table(document, "session")
	c.providers = c.tablesIn(document, "providers")
	c.tablesIn(document, "packs")
	for _, rig := range c.elements(document, "rigs") {
		c.inspect(rig, "[[rigs]]")
		if name := textOf(rig, "name"); name != "" && c.rigs[name] == nil {
			c.rigs[name] = rig
			if rig.byName["path"] == nil {
				r.notice(rig.byName["name"], "the rig %s has no path: its agents run in a directory "+
					"of that name in the city", spec.Quote(name))
			}
		}
	}
	for _, s := range tablesOf(document.byName["named_session"]) {
		c.namedSession(s)
	}

	out := newTable(document.src, "", 0, nil)
	c.project(out)
	c.daemon(document, out)
	agents := c.elements(document, "agent")
	for _, a := range agents {
		if textOf(a, "name") != "" {
			c.names[c.identity(a)] = c.called(a)
		}
	}
	for _, a := range agents { // who came by an import is known without its name, too, if nobody else is
		if c.names[qualified(a)] == "" {
			c.names[qualified(a)] = c.called(a)
		}
	}
	orders := c.orders(document, out)
	if len(agents) == 0 {
		r.notice(document, "there is no agent in this city: neither an [[agent]], nor a pack that has one for the "+
			"city or for one of its [[rigs]]")
	}
	if len(agents) > 0 {
		all := &value{kind: isArray, src: document.src, name: "agent", at: document.byName["agent"].at,
			key: document.byName["agent"].key}
		for _, a := range agents {
			made := c.agent(a)
			made.parent = all
			all.append(made)
		}
		out.adopt(all)
	}
	for _, u := range c.unused {
		if u.notice != nil && u.others > 0 {
			u.notice.Message += fmt.Sprintf(" (and %d more)", u.others)
		}
	}
	return &translation{out, orders}
}

// backoff paces the restarts of an agent: Gas City's controller starts what has
// crashed at its next tick.
func (c *city) backoff(agent *value) *value {
	from, base := agent, spec.DefaultPatrol().Interval
	if c.interval != nil && c.interval.kind == isString {
		if d, err := timespan.Parse(c.interval.text); err == nil && d > 0 {
			from, base = c.interval, min(d, spec.DefaultBackoff().Cap)
		}
	}
	t := madeTable(from, "backoff")
	t.put(made(from, isString, "kind", supervisor.Fixed.String()))
	t.put(made(from, isString, "base", base.String()))
	return t
}

func (c *city) namedSession(s *value) {
	c.inspect(s, "[[named_session]]")
	if mode := s.byName["mode"]; mode != nil && !textIs(s, "mode", isString, "always") {
		c.notSupported(mode, "named_session.mode",
			"named_session with mode %s is not supported: agents run all the time, or are pools", inTOML(mode))
	}
}

// identity is what Gas City calls an agent: dir/import.name, dir/name, or name.
func (c *city) identity(a *value) string {
	if binding := c.homes[a].binding; binding != "" {
		return strings.TrimPrefix(textOf(a, "dir")+"/"+binding+"."+textOf(a, "name"), "/")
	}
	return qualified(a)
}

// called is the name of an agent here.
func (c *city) called(a *value) string {
	name := strings.ReplaceAll(qualified(a), "/", "--")
	if binding := c.homes[a].binding; binding != "" {
		name = strings.TrimSuffix(name, textOf(a, "name")) + binding + "__" + textOf(a, "name")
	}
	return name
}

// meant is the name here of the agent that another one, or an order, of a rig
// and an import calls so.
func (c *city) meant(name, rig, binding string) (string, bool) {
	for _, full := range []string{rig + "/" + binding + "." + name, rig + "/" + name, binding + "." + name, name} {
		if called, ok := c.names[strings.TrimPrefix(full, "/")]; ok {
			return called, true
		}
	}
	return "", false
}

// path is where a path leads that a file states: it is relative to that file,
// with // in front to the city.
func (c *city) path(path, base string) string {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		return under(c.dir, rest)
	}
	return under(base, path)
}

// dropProviderPatches names patches of what is not patched.
func (c *city) dropProviderPatches(document *value) {
	patches := document.byName["patches"]
	if patches == nil || patches.kind != isTable {
		return
	}
	if p := patches.byName["providers"]; p != nil {
		c.notSupported(p, "patches.providers", "patches.providers is not supported: write it in [providers]")
		patches.remove("providers")
	}
}

// patches are those of a city.toml.
func (c *city) patches() []patchable {
	agents := patchable{
		section: c.tables["[[agent]]"].section(), by: "[[patches.agent]]", keys: []string{"name", "dir", "rig"},
		identity: func(v *value) string {
			if rig := textOf(v, "rig"); rig != "" && textOf(v, "dir") == "" {
				return rig + "/" + textOf(v, "name")
			}
			return qualified(v)
		},
		answers: func(v *value) []string { return []string{c.identity(v), qualified(v)} },
	}
	rigs := c.tables["[[rigs]]"].section()
	// they have been followed
	rigs.rows = slices.DeleteFunc(slices.Clone(rigs.rows),
		func(row row) bool { return strings.HasPrefix(row.typ, "array") || row.typ == "table" })
	return []patchable{agents, named(rigs)}
}

// inspect names what is not supported, and what is not known.
func (c *city) inspect(v *value, header string) {
	t := c.tables[header]
	for _, f := range v.fields {
		switch k := t.key(f.name); {
		case k == nil:
			rows := t.section().rows
			names := make([]string, len(rows))
			for i, row := range rows {
				names[i] = row.name
			}
			where := header
			if where == "" {
				where = "the file"
			}
			if near := suggest.Nearest(f.name, names); near != "" {
				c.r.fail(f.key, f, "did you mean "+strconv.Quote(near)+"?", "unknown key %s in %s",
					spec.Quote(f.name), where)
			} else {
				c.r.notice(f, "%s is not known in %s, and not used", bareKey(f.name), where)
			}
		case k.unused:
			if key := header + " " + f.name; !c.again(key) { // else its path would be looked for in vain
				c.notSupported(f, key, "%s is not supported: %s", keyPath(f), strings.ReplaceAll(k.doc, "`", ""))
			}
		}
	}
}

// notSupported names a key that is not supported, once for all its places.
func (c *city) notSupported(f *value, key, format string, args ...any) {
	if !c.again(key) {
		c.unused[key] = &ignoredKey{notice: c.r.notice(f, format, args...)}
	}
}

// again counts a key that was named before.
func (c *city) again(key string) bool {
	u := c.unused[key]
	if u != nil {
		u.others++
	}
	return u != nil
}

// only returns a field that is a table; nil if there is none.
func (c *city) only(v *value, name string) *value {
	f := v.byName[name]
	if f == nil || !c.r.want(f, isTable, "a table") {
		return nil
	}
	return f
}

// table is only, and inspects it.
func (c *city) table(v *value, name string) *value {
	f := c.only(v, name)
	if f != nil {
		c.inspect(f, "["+name+"]")
	}
	return f
}

// tablesIn is a table of tables, which are inspected; nil if there is none.
func (c *city) tablesIn(v *value, name string) *value {
	t := c.only(v, name)
	if t == nil {
		return nil
	}
	for _, f := range t.fields {
		if c.r.want(f, isTable, "a table") {
			c.inspect(f, "["+name+".*]")
		}
	}
	return t
}

// elements are those of an array of tables.
func (c *city) elements(v *value, name string) (all []*value) {
	f := v.byName[name]
	if f == nil {
		return nil
	}
	if f.kind == isTable {
		c.r.fail(f.key, f, "write [["+name+"]]", "%s is a single table, expected an array of tables", name)
		return nil
	}
	if c.r.want(f, isArray, "an array of tables") {
		for _, e := range f.elements {
			if c.r.want(e, isTable, "a table") {
				all = append(all, e)
			}
		}
	}
	return all
}

// qualified is what Gas City calls an agent: dir/name, or name.
func qualified(a *value) string {
	return strings.TrimPrefix(textOf(a, "dir")+"/"+textOf(a, "name"), "/")
}

// give puts a value that is not nil into a table; an empty text is none.
func give(t, v *value) {
	if v != nil && !(v.kind == isString && v.text == "") {
		t.put(v)
	}
}

func (c *city) project(out *value) {
	c.name = projectName(c.dir)
	if c.workspace == nil {
		return
	}
	t := madeTable(c.workspace, "project")
	give(t, copyOf(c.workspace.byName["name"], "name"))
	give(t, copyOf(c.workspace.byName["suspended"], "suspended"))
	if name := textOf(c.workspace, "name"); name != "" {
		c.name = name
	}
	out.adopt(t)
}

// daemon makes [daemon], which every city has: the patrol keeps its agents.
// defaultStarts is the default of max_restarts in a city.toml.
const defaultStarts = "5"

func (c *city) daemon(document, out *value) {
	from := c.table(document, "daemon")
	if from == nil {
		from = newTable(document.src, "daemon", 0, nil)
	}
	c.interval = from.byName["patrol_interval"]
	t := madeTable(from, "daemon")
	for _, f := range from.fields {
		switch f.name {
		case "patrol_interval", "restart_window", "shutdown_timeout", "drift_drain_timeout":
			give(t, copyOf(f, f.name))
		case "wisp_gc_interval":
			give(t, copyOf(f, "gc_interval"))
		case "wisp_ttl":
			give(t, copyOf(f, "ttl"))
		case "max_restarts":
			if f.kind == isInteger && strings.HasPrefix(f.text, "-") {
				give(t, made(f, isInteger, f.name, "0"))
			} else {
				give(t, copyOf(f, f.name))
			}
		}
	}
	if t.byName["max_restarts"] == nil {
		t.put(made(from, isInteger, "max_restarts", defaultStarts))
	}
	out.adopt(t)
}
