// Package gascity translates the city.toml of a Gas City, with its packs, formulas and
// orders, into the document of a coppice.toml that means the same. The tables of
// coppice.toml read that document, and every value keeps its place in the city's files.
package gascity

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/orderfile"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is the name of the file of a
// Gas City, of which the part about agents is read.
const FileName = "city.toml"

// city translates one city.toml.
type city struct {
	r         *toml.Reader
	dir       string // of the file, absolute
	name      string
	tables    map[string]table // by header
	workspace *toml.Value      // these may be nil
	providers *toml.Value
	session   *toml.Value
	interval  *toml.Value // patrol_interval
	rigs      map[string]*toml.Value
	homes     map[*toml.Value]home   // of agents that are in packs
	layers    []layer                // of orders
	formulas  map[string]*toml.Value // files of formulas; nil for what is none
	g         *fileset.Set
	names     map[string]string      // what agents are called, by their identity
	foreign   map[string]bool        // providers of sessions that were named
	unused    map[string]*ignoredKey // what is not supported, by table and key
	template  *regexp.Regexp         // what is replaced in texts
}

// ignoredKey is a key that is not supported: it is named where it is first.
type ignoredKey struct {
	notice *toml.Notice
	others int
}

// Translation is the meaning of a file of another program.
type Translation struct {
	Document *toml.Value      // the coppice.toml that means the same
	Orders   []orderfile.File // which are not in it
}

// Translate makes of the document of a city.toml in a directory what it means here.
func Translate(r *toml.Reader, document *toml.Value, dir string, g *fileset.Set) *Translation {
	c := newCity(r, dir)
	c.gather(document, g)
	return c.translate(document)
}

func newCity(r *toml.Reader, dir string) *city {
	c := &city{
		r: r, dir: dir, tables: map[string]table{}, rigs: map[string]*toml.Value{},
		homes: map[*toml.Value]home{}, names: map[string]string{}, foreign: map[string]bool{},
		unused: map[string]*ignoredKey{}, formulas: map[string]*toml.Value{},
		template: regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`),
	}
	for _, t := range tables() {
		c.tables[t.header] = t
	}
	return c
}

// gather adds to a document what is in packs, and applies its patches.
func (c *city) gather(document *toml.Value, g *fileset.Set) {
	c.g = g
	c.dropProviderPatches(document)
	(&packs{city: c, sources: map[string]*toml.Source{}}).expand(document)
	c.r.Patch(document, c.patches())
}

func (c *city) translate(document *toml.Value) *Translation {
	r := c.r
	c.inspect(document, "")
	c.workspace, c.session = c.table(document, "workspace"), c.table(document, "session")
	c.providers = c.tablesIn(document, "providers")
	c.tablesIn(document, "packs")
	for _, rig := range c.elements(document, "rigs") {
		c.inspect(rig, "[[rigs]]")
		if name := toml.TextOf(rig, "name"); name != "" && c.rigs[name] == nil {
			c.rigs[name] = rig
			if rig.Field("path") == nil {
				r.Notice(rig.Field("name"), "the rig %s has no path: its agents run in a directory "+
					"of that name in the city", spec.Quote(name))
			}
		}
	}
	for _, s := range tablesOf(document.Field("named_session")) {
		c.namedSession(s)
	}

	out := toml.NewTable(document.Source, "", 0, nil)
	c.project(out)
	c.daemon(document, out)
	agents := c.elements(document, "agent")
	for _, a := range agents {
		if toml.TextOf(a, "name") != "" {
			c.names[c.identity(a)] = c.called(a)
		}
	}
	for _, a := range agents { // the name of an import can be left out where no other agent is called so
		if c.names[qualified(a)] == "" {
			c.names[qualified(a)] = c.called(a)
		}
	}
	orders := c.orders(document, out)
	if len(agents) == 0 {
		r.Notice(document, "there is no agent in this city: neither an [[agent]], nor a pack that has one for the "+
			"city or for one of its [[rigs]]")
	}
	if len(agents) > 0 {
		all := &toml.Value{Kind: toml.KindArray, Source: document.Source, Name: "agent", At: document.Field("agent").At,
			Key: document.Field("agent").Key}
		for _, a := range agents {
			made := c.agent(a)
			made.Parent = all
			all.Append(made)
		}
		out.Adopt(all)
	}
	for _, u := range c.unused {
		if u.notice != nil && u.others > 0 {
			u.notice.Message += fmt.Sprintf(" (and %d more)", u.others)
		}
	}
	return &Translation{out, orders}
}

// backoff paces the restarts of an agent: Gas City's controller starts what has
// crashed at its next tick.
func (c *city) backoff(agent *toml.Value) *toml.Value {
	from, base := agent, spec.DefaultPatrol().Interval
	if c.interval != nil && c.interval.Kind == toml.KindString {
		if d, err := timespan.Parse(c.interval.Text); err == nil && d > 0 {
			from, base = c.interval, min(d, spec.DefaultBackoff().Cap)
		}
	}
	t := toml.DeriveTable(from, "backoff")
	t.Put(toml.Derive(from, toml.KindString, "kind", supervisor.Fixed.String()))
	t.Put(toml.Derive(from, toml.KindString, "base", base.String()))
	return t
}

func (c *city) namedSession(s *toml.Value) {
	c.inspect(s, "[[named_session]]")
	if mode := s.Field("mode"); mode != nil && !textIs(s, "mode", toml.KindString, "always") {
		c.notSupported(mode, "named_session.mode",
			"named_session with mode %s is not supported: an agent runs all the time or is a pool", toml.Format(mode))
	}
}

// identity returns what Gas City calls an agent: dir/import.name, dir/name, or name.
func (c *city) identity(a *toml.Value) string {
	if binding := c.homes[a].binding; binding != "" {
		return strings.TrimPrefix(toml.TextOf(a, "dir")+"/"+binding+"."+toml.TextOf(a, "name"), "/")
	}
	return qualified(a)
}

// called returns the name of an agent here.
func (c *city) called(a *toml.Value) string {
	name := strings.ReplaceAll(qualified(a), "/", "--")
	if binding := c.homes[a].binding; binding != "" {
		name = strings.TrimSuffix(name, toml.TextOf(a, "name")) + binding + "__" + toml.TextOf(a, "name")
	}
	return name
}

// meant returns the name here of the agent that another one, or an order, of a rig
// and an import calls so.
func (c *city) meant(name, rig, binding string) (string, bool) {
	for _, full := range []string{rig + "/" + binding + "." + name, rig + "/" + name, binding + "." + name, name} {
		if called, ok := c.names[strings.TrimPrefix(full, "/")]; ok {
			return called, true
		}
	}
	return "", false
}

// path returns where a path leads that a file states: it is relative to that file,
// with // in front to the city.
func (c *city) path(path, base string) string {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		return toml.Absolute(c.dir, rest)
	}
	return toml.Absolute(base, path)
}

// dropProviderPatches names patches of what is not patched.
func (c *city) dropProviderPatches(document *toml.Value) {
	patches := document.Field("patches")
	if patches == nil || patches.Kind != toml.KindTable {
		return
	}
	if p := patches.Field("providers"); p != nil {
		c.notSupported(p, "patches.providers", "patches.providers is not supported: write it in [providers]")
		patches.Remove("providers")
	}
}

// patches returns those of a city.toml.
func (c *city) patches() []toml.Patchable {
	agents := toml.Patchable{
		Section:     c.tables["[[agent]]"].section(),
		PatchHeader: "[[patches.agent]]",
		Keys:        []string{"name", "dir", "rig"},
		Identity: func(v *toml.Value) string {
			if rig := toml.TextOf(v, "rig"); rig != "" && toml.TextOf(v, "dir") == "" {
				return rig + "/" + toml.TextOf(v, "name")
			}
			return qualified(v)
		},
		Names: func(v *toml.Value) []string { return []string{c.identity(v), qualified(v)} },
	}
	rigs := c.tables["[[rigs]]"].section()
	// they have been followed
	rigs.Rows = slices.DeleteFunc(slices.Clone(rigs.Rows),
		func(row toml.Row) bool { return strings.HasPrefix(row.Type, "array") || row.Type == "table" })
	return []toml.Patchable{agents, toml.Named(rigs)}
}

// inspect names what is not supported, and what is not known.
func (c *city) inspect(v *toml.Value, header string) {
	t := c.tables[header]
	for _, f := range v.Fields {
		switch k := t.key(f.Name); {
		case k == nil:
			rows := t.section().Rows
			names := make([]string, len(rows))
			for i, row := range rows {
				names[i] = row.Name
			}
			where := header
			if where == "" {
				where = "the file"
			}
			if near := suggest.Nearest(f.Name, names); near != "" {
				c.r.FailKey(f, "did you mean "+strconv.Quote(near)+"?", "unknown key %s in %s",
					spec.Quote(f.Name), where)
			} else {
				c.r.Notice(f, "%s is not a key of %s, and is ignored", toml.BareKey(f.Name), where)
			}
		case k.unused:
			if key := header + " " + f.Name; !c.again(key) { // else its path would be looked for in vain
				c.notSupported(f, key, "%s is not supported: %s", toml.KeyPath(f), strings.ReplaceAll(k.Doc, "`", ""))
			}
		}
	}
}

// notSupported names a key that is not supported, once for all its places.
func (c *city) notSupported(f *toml.Value, key, format string, args ...any) {
	if !c.again(key) {
		c.unused[key] = &ignoredKey{notice: c.r.Notice(f, format, args...)}
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
func (c *city) only(v *toml.Value, name string) *toml.Value {
	f := v.Field(name)
	if f == nil || !c.r.Want(f, toml.KindTable, "a table") {
		return nil
	}
	return f
}

// table returns only, and inspects it.
func (c *city) table(v *toml.Value, name string) *toml.Value {
	f := c.only(v, name)
	if f != nil {
		c.inspect(f, "["+name+"]")
	}
	return f
}

// tablesIn returns a table of tables, which are inspected; nil if there is none.
func (c *city) tablesIn(v *toml.Value, name string) *toml.Value {
	t := c.only(v, name)
	if t == nil {
		return nil
	}
	for _, f := range t.Fields {
		if c.r.Want(f, toml.KindTable, "a table") {
			c.inspect(f, "["+name+".*]")
		}
	}
	return t
}

// elements returns those of an array of tables.
func (c *city) elements(v *toml.Value, name string) (all []*toml.Value) {
	f := v.Field(name)
	if f == nil {
		return nil
	}
	if f.Kind == toml.KindTable {
		c.r.FailKey(f, "write [["+name+"]]", "%s is a single table, expected an array of tables", name)
		return nil
	}
	if c.r.Want(f, toml.KindArray, "an array of tables") {
		for _, e := range f.Elements {
			if c.r.Want(e, toml.KindTable, "a table") {
				all = append(all, e)
			}
		}
	}
	return all
}

// qualified returns what Gas City calls an agent: dir/name, or name.
func qualified(a *toml.Value) string {
	return strings.TrimPrefix(toml.TextOf(a, "dir")+"/"+toml.TextOf(a, "name"), "/")
}

// give puts a value that is not nil into a table; an empty text is none.
func give(t, v *toml.Value) {
	if v != nil && !(v.Kind == toml.KindString && v.Text == "") {
		t.Put(v)
	}
}

func (c *city) project(out *toml.Value) {
	c.name = setting.ProjectName(c.dir)
	if c.workspace == nil {
		return
	}
	t := toml.DeriveTable(c.workspace, "project")
	give(t, toml.CopyAs(c.workspace.Field("name"), "name"))
	give(t, toml.CopyAs(c.workspace.Field("suspended"), "suspended"))
	if name := toml.TextOf(c.workspace, "name"); name != "" {
		c.name = name
	}
	out.Adopt(t)
}

// defaultStarts is the default of max_restarts in a city.toml.
const defaultStarts = "5"

// daemon makes [daemon], which every city has, as its limit applies to all agents.
func (c *city) daemon(document, out *toml.Value) {
	from := c.table(document, "daemon")
	if from == nil {
		from = toml.NewTable(document.Source, "daemon", 0, nil)
	}
	c.interval = from.Field("patrol_interval")
	t := toml.DeriveTable(from, "daemon")
	for _, f := range from.Fields {
		switch f.Name {
		case "patrol_interval", "restart_window", "shutdown_timeout", "drift_drain_timeout":
			give(t, toml.CopyAs(f, f.Name))
		case "wisp_gc_interval":
			give(t, toml.CopyAs(f, "gc_interval"))
		case "wisp_ttl":
			give(t, toml.CopyAs(f, "ttl"))
		case "max_restarts":
			if f.Kind == toml.KindInteger && strings.HasPrefix(f.Text, "-") {
				give(t, toml.Derive(f, toml.KindInteger, f.Name, "0"))
			} else {
				give(t, toml.CopyAs(f, f.Name))
			}
		}
	}
	if t.Field("max_restarts") == nil {
		t.Put(toml.Derive(from, toml.KindInteger, "max_restarts", defaultStarts))
	}
	out.Adopt(t)
}
