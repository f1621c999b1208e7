// Package gascity translates the city.toml of a Gas City, with its packs, formulas and
// orders, into an equivalent coppice.toml document. The tables of coppice.toml read that
// document, and every value keeps its place in the files of the city.
package gascity

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/orderfile"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is the name of the file of a Gas City.
const FileName = "city.toml"

// city translates one city.toml.
type city struct {
	r         *toml.Reader
	dir       string // of the file, absolute
	name      string
	schema    *schema
	workspace *toml.Value // this and the next three may be nil
	providers *toml.Value
	session   *toml.Value
	interval  *toml.Value // patrol_interval
	rigs      map[string]*toml.Value
	origins   map[*toml.Value]origin // where agents of packs come from
	layers    []layer                // of orders
	g         *fileset.Set
	names     map[string]string // names of agents in Coppice, by their name in Gas City
	foreign   map[string]bool   // unsupported session providers that were reported
	template  *regexp.Regexp    // matches templates in texts
}

// Translation is a translated city.
type Translation struct {
	Document *toml.Value      // the equivalent coppice.toml
	Orders   []orderfile.File // from files of their own
}

// Translate translates the document of a city.toml in the directory dir.
func Translate(r *toml.Reader, document *toml.Value, dir string, g *fileset.Set) *Translation {
	c := newCity(r, dir)
	c.addPacks(document, g)
	return c.translate(document)
}

func newCity(r *toml.Reader, dir string) *city {
	return &city{
		r: r, dir: dir, schema: newSchema(r), rigs: map[string]*toml.Value{},
		origins: map[*toml.Value]origin{}, names: map[string]string{}, foreign: map[string]bool{},
		template: regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`),
	}
}

// addPacks adds the content of packs to a document and applies its patches.
func (c *city) addPacks(document *toml.Value, g *fileset.Set) {
	c.g = g
	c.dropProviderPatches(document)
	(&packs{city: c, sources: map[string]*toml.Source{}}).expand(document)
	c.r.Patch(document, c.patches())
}

func (c *city) translate(document *toml.Value) *Translation {
	r := c.r
	c.schema.inspect(document, "")
	c.workspace, c.session = c.schema.table(document, "workspace"), c.schema.table(document, "session")
	c.providers = c.schema.tablesIn(document, "providers")
	c.schema.tablesIn(document, "packs")
	for _, rig := range elements(r, document, "rigs") {
		c.schema.inspect(rig, "[[rigs]]")
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
	agents := elements(r, document, "agent")
	for _, a := range agents {
		if toml.TextOf(a, "name") != "" {
			c.names[c.cityName(a)] = c.coppiceName(a)
		}
	}
	for _, a := range agents { // the name of an import may be omitted if that is unambiguous
		if c.names[qualified(a)] == "" {
			c.names[qualified(a)] = c.coppiceName(a)
		}
	}
	orders := c.orders(document, out)
	if len(agents) == 0 {
		r.Notice(document, "there is no agent in this city: neither an [[agent]], nor a pack that has one for the "+
			"city or for one of its [[rigs]]")
	}
	if len(agents) > 0 {
		all := toml.Derive(document.Field("agent"), toml.KindArray, "agent", "")
		for _, a := range agents {
			all.Append(c.agent(a))
		}
		out.Adopt(all)
	}
	c.schema.addRepeats()
	return &Translation{out, orders}
}

// backoff returns the backoff of an agent. Gas City's controller restarts a crashed agent at
// its next tick.
func (c *city) backoff(agent *toml.Value) *toml.Value {
	from, base := agent, spec.DefaultPatrol().Interval
	if c.interval != nil && c.interval.Kind == toml.KindString {
		if d, err := timespan.Parse(c.interval.Text); err == nil && d > 0 {
			from, base = c.interval, min(d, spec.DefaultBackoff().Cap)
		}
	}
	t := toml.DeriveTable(from, "backoff")
	setText(t, from, "kind", supervisor.Fixed.String())
	setText(t, from, "base", base.String())
	return t
}

func (c *city) namedSession(s *toml.Value) {
	c.schema.inspect(s, "[[named_session]]")
	if mode := s.Field("mode"); mode != nil && !textIs(s, "mode", toml.KindString, "always") {
		c.schema.notSupported(mode, "named_session.mode",
			"named_session with mode %s is not supported: an agent runs all the time or is a pool", toml.Format(mode))
	}
}

// cityName returns the name of an agent in Gas City: dir/import.name, dir/name, or name.
func (c *city) cityName(a *toml.Value) string {
	if binding := c.origins[a].binding; binding != "" {
		return strings.TrimPrefix(toml.TextOf(a, "dir")+"/"+binding+"."+toml.TextOf(a, "name"), "/")
	}
	return qualified(a)
}

// coppiceName returns the name of an agent in Coppice.
func (c *city) coppiceName(a *toml.Value) string {
	name := strings.ReplaceAll(qualified(a), "/", "--")
	if binding := c.origins[a].binding; binding != "" {
		name = strings.TrimSuffix(name, toml.TextOf(a, "name")) + binding + "__" + toml.TextOf(a, "name")
	}
	return name
}

// findAgent returns the name in Coppice of the agent that name refers to, for an agent or
// order of a rig and an import.
func (c *city) findAgent(name, rig, binding string) (string, bool) {
	for _, full := range []string{rig + "/" + binding + "." + name, rig + "/" + name, binding + "." + name, name} {
		if called, ok := c.names[strings.TrimPrefix(full, "/")]; ok {
			return called, true
		}
	}
	return "", false
}

// path returns the absolute form of a path in a file. It is relative to base, or with a
// leading // to the city.
func (c *city) path(path, base string) string {
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		return toml.Absolute(c.dir, rest)
	}
	return toml.Absolute(base, path)
}

// dropProviderPatches removes and reports patches of providers.
func (c *city) dropProviderPatches(document *toml.Value) {
	patches := document.Field("patches")
	if patches == nil || patches.Kind != toml.KindTable {
		return
	}
	if p := patches.Field("providers"); p != nil {
		c.schema.notSupported(p, "patches.providers", "patches.providers is not supported: write it in [providers]")
		patches.Remove("providers")
	}
}

// patches returns the arrays of a city.toml that can be patched.
func (c *city) patches() []toml.Patchable {
	agents := toml.Patchable{
		Section:     c.schema.tables["[[agent]]"].section(),
		PatchHeader: "[[patches.agent]]",
		Keys:        []string{"name", "dir", "rig"},
		Identity: func(v *toml.Value) string {
			if rig := toml.TextOf(v, "rig"); rig != "" && toml.TextOf(v, "dir") == "" {
				return rig + "/" + toml.TextOf(v, "name")
			}
			return qualified(v)
		},
		Names: func(v *toml.Value) []string { return []string{c.cityName(v), qualified(v)} },
	}
	rigs := c.schema.tables["[[rigs]]"].section()
	// Packs are expanded before patches are applied.
	rigs.Rows = slices.DeleteFunc(slices.Clone(rigs.Rows),
		func(row toml.Row) bool { return strings.HasPrefix(row.Type, "array") || row.Type == "table" })
	return []toml.Patchable{agents, toml.Named(rigs)}
}

// elements returns the elements of an array of tables.
func elements(r *toml.Reader, v *toml.Value, name string) []*toml.Value {
	if f := v.Field(name); f != nil {
		return r.Tables(f)
	}
	return nil
}

// copyField copies a field of from to another table under another name.
func copyField(to, from *toml.Value, name, as string) {
	putIfSet(to, toml.CopyAs(from.Field(name), as))
}

// setText sets a field of a table to a string with the place of at.
func setText(t, at *toml.Value, name, text string) {
	t.Put(toml.Derive(at, toml.KindString, name, text))
}

// rigRoot returns the directory of a rig.
func (c *city) rigRoot(rig *toml.Value) string { return toml.Absolute(c.dir, toml.TextOf(rig, "path")) }

// qualified returns the name of an agent in Gas City without its import: dir/name, or name.
func qualified(a *toml.Value) string {
	return strings.TrimPrefix(toml.TextOf(a, "dir")+"/"+toml.TextOf(a, "name"), "/")
}

// putIfSet puts a value into a table unless it is nil or an empty string.
func putIfSet(t, v *toml.Value) {
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
	copyField(t, c.workspace, "name", "name")
	copyField(t, c.workspace, "suspended", "suspended")
	c.name = cmp.Or(toml.TextOf(c.workspace, "name"), c.name)
	out.Adopt(t)
}

// defaultStarts is the default of max_restarts in a city.toml.
const defaultStarts = "5"

// daemon translates [daemon]. Every city gets one, as its limit applies to all agents.
func (c *city) daemon(document, out *toml.Value) {
	from := c.schema.table(document, "daemon")
	if from == nil {
		from = toml.NewTable(document.Source, "daemon", 0, nil)
	}
	c.interval = from.Field("patrol_interval")
	t := toml.DeriveTable(from, "daemon")
	for _, f := range from.Fields {
		switch f.Name {
		case "patrol_interval", "restart_window", "shutdown_timeout", "drift_drain_timeout", "max_restarts":
			putIfSet(t, toml.CopyAs(f, f.Name))
		case "wisp_gc_interval":
			putIfSet(t, toml.CopyAs(f, "gc_interval"))
		case "wisp_ttl":
			putIfSet(t, toml.CopyAs(f, "ttl"))
		}
	}
	switch most := t.Field("max_restarts"); {
	case most == nil:
		t.Put(toml.Derive(from, toml.KindInteger, "max_restarts", defaultStarts))
	case most.Kind == toml.KindInteger && strings.HasPrefix(most.Text, "-"):
		most.Text = "0"
	}
	out.Adopt(t)
}
