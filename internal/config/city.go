package config

import (
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
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
	agentRows section              // of coppice.toml
	workspace *value               // these may be nil
	providers *value
	session   *value
	rigs      map[string]*value
	names     map[string]string // what agents are called, by dir/name
	foreign   map[string]bool   // providers of sessions that were named
}

// city translates a document whose patches have been applied.
func (r *reader) city(document *value, dir string) *value {
	c := &city{
		r: r, dir: dir, tables: map[string]cityTable{}, agentRows: agentTable().section(), foreign: map[string]bool{},
		rigs: map[string]*value{}, names: map[string]string{},
	}
	for _, t := range cityTables() {
		c.tables[t.header] = t
	}
	c.inspect(document, "")
	c.workspace, c.session = c.table(document, "workspace"), c.table(document, "session")
	if c.providers = c.only(document, "providers"); c.providers != nil {
		for _, p := range c.providers.fields {
			if r.want(p, isTable, "a table") {
				c.inspect(p, "[providers.*]")
			}
		}
	}
	for _, rig := range c.elements(document, "rigs") {
		c.inspect(rig, "[[rigs]]")
		if name := rig.byName["name"]; name != nil && name.kind == isString && c.rigs[name.text] == nil {
			c.rigs[name.text] = rig
		}
	}

	out := newTable(document.src, "", 0, nil)
	c.project(out)
	c.daemon(document, out)
	if orders := document.remove("orders"); orders != nil {
		if fileTable().section().row("orders") == nil {
			r.notice(orders, "orders is not supported")
		} else {
			out.adopt(orders)
		}
	}
	agents := c.elements(document, "agent")
	for _, a := range agents {
		if name := textOf(a, "name"); name != "" {
			c.names[qualified(a)] = strings.ReplaceAll(qualified(a), "/", "--")
		}
	}
	if len(agents) == 0 {
		r.notice(document, "there is no agent in this city; those of packs are not read: write them as [[agent]]")
	}
	if len(agents) > 0 {
		all := &value{kind: isArray, src: document.src, name: "agent", at: document.byName["agent"].at, key: document.byName["agent"].key}
		for _, a := range agents {
			made := c.agent(a)
			made.parent = all
			all.append(made)
		}
		out.adopt(all)
	}
	return out
}

// dropProviderPatches names patches of what is not patched.
func (r *reader) dropProviderPatches(document *value) {
	patches := document.byName["patches"]
	if patches == nil || patches.kind != isTable {
		return
	}
	if p := patches.byName["providers"]; p != nil {
		r.notice(p, "patches.providers is not supported: write it in [providers]")
		patches.remove("providers")
	}
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
				c.r.fail(f.key, f, "did you mean "+strconv.Quote(near)+"?", "unknown key %s in %s", spec.Quote(f.name), where)
			} else {
				c.r.notice(f, "%s is not known, and not used", keyPath(f))
			}
		case k.unused:
			c.r.notice(f, "%s is not supported: %s", keyPath(f), strings.ReplaceAll(k.doc, "`", ""))
		}
	}
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

// textOf is a field that is a string; "" if there is none.
func textOf(v *value, name string) string {
	if v == nil || v.byName[name] == nil || v.byName[name].kind != isString {
		return ""
	}
	return v.byName[name].text
}

// qualified is what Gas City calls an agent: dir/name, or name.
func qualified(a *value) string {
	return strings.TrimPrefix(textOf(a, "dir")+"/"+textOf(a, "name"), "/")
}

// copyOf is a value to be put somewhere else, under another name; nil of nil.
func copyOf(v *value, name string) *value {
	if v == nil {
		return nil
	}
	c := *v
	c.name, c.parent = name, nil
	return &c
}

// made is a value that stands for another one, at its place.
func made(from *value, k kind, name, text string) *value {
	return &value{kind: k, src: from.src, at: from.at, key: from.key, name: name, text: text, over: from.over}
}

func madeTable(from *value, name string) *value {
	t := newTable(from.src, name, from.at, nil)
	t.key = from.key
	return t
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
func (c *city) daemon(document, out *value) {
	from := c.table(document, "daemon")
	if from == nil {
		out.adopt(newTable(document.src, "daemon", 0, nil))
		return
	}
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
	out.adopt(t)
}
