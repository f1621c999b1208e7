package gascity

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/config/orderfile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// layer is a directory with orders: a pack or the city.
type layer struct {
	dir  string
	pack string      // its name; "" for the city
	rig  *toml.Value // the rig that uses the pack; nil for the city
}

// orderFiles reads the files of orders. An order of a later layer replaces one of the same
// name.
func (c *city) orderFiles() (all []orderfile.File) {
	if !c.g.CanRead() {
		return nil
	}
	formulas := &formulas{r: c.r, g: c.g, layers: c.layers, files: map[string]*toml.Value{}}
	before := map[string]int{}
	for _, l := range c.layers {
		first := len(all)
		for _, f := range orderfile.Read(c.r, c.g, l.dir,
			"orders/*.toml", "orders/*/order.toml", "formulas/orders/*/order.toml") {
			f = c.orderOf(f, l, formulas)
			if at, ok := before[f.Name]; ok {
				all[at] = f
			} else {
				all = append(all, f)
			}
		}
		for i := first; i < len(all); i++ {
			before[all[i].Name] = i
		}
	}
	return all
}

// rigOrder returns the name of an order of a pack in a rig. Names of agents are similar.
func rigOrder(rig *toml.Value, name string) string { return toml.TextOf(rig, "name") + "--" + name }

// orders translates [orders] and reads the files of orders.
func (c *city) orders(document, out *toml.Value) (files []orderfile.File) {
	files = c.orderFiles()
	from := c.schema.table(document, "orders")
	if from == nil {
		return files
	}
	known := map[string]bool{}
	for _, f := range files {
		known[f.Name] = true
	}
	t := toml.DeriveTable(from, "orders")
	for _, f := range from.Fields {
		if k := c.schema.tables["[orders]"].key(f.Name); k == nil || k.unused {
			continue
		}
		if f.Name == "skip" {
			t.Put(c.skipped(f, known))
		} else {
			t.Put(toml.CopyAs(f, f.Name))
		}
	}
	for _, o := range tablesOf(t.Field("overrides")) {
		rig, name := o.Remove("rig"), o.Field("name")
		if rig != nil && c.r.Want(rig, toml.KindString, "the name of a rig") && rig.Text != "" && name != nil {
			o.Put(toml.Derive(name, name.Kind, "name", rig.Text+"--"+name.Text))
		}
		c.order(o, toml.TextOf(c.rigs[toml.TextOf(o, "rig")], "name"))
	}
	out.Adopt(t)
	return files
}

// skipped translates skip. The name of an order of rigs means the order in each rig.
func (c *city) skipped(skip *toml.Value, known map[string]bool) *toml.Value {
	if skip.Kind != toml.KindArray {
		return toml.CopyAs(skip, "skip") // the reader reports it
	}
	list := toml.Derive(skip, toml.KindArray, "skip", "")
	for _, e := range skip.Elements {
		before := len(list.Elements)
		for _, l := range c.layers {
			if l.rig == nil {
				continue
			}
			if name := rigOrder(l.rig, e.Text); known[name] {
				list.Append(toml.Derive(e, toml.KindString, "", name))
			}
		}
		if len(list.Elements) == before || known[e.Text] {
			list.Append(toml.CopyAs(e, ""))
		}
	}
	return list
}

// order translates the keys of an order. rig is the name of its rig, or "".
func (c *city) order(t *toml.Value, rig string) {
	if pool := t.Field("pool"); pool != nil && pool.Kind == toml.KindString {
		if called, ok := c.findAgent(pool.Text, rig, ""); ok {
			setText(t, pool, "pool", called)
		} else {
			c.r.Notice(pool, "no agent is called %s to do these tasks",
				spec.Quote(strings.TrimPrefix(rig+"/"+pool.Text, "/")))
		}
	}
	if on := t.Field("on"); on != nil && on.Kind == toml.KindString {
		setText(t, on, "on", coppiceEvent(on.Text))
	}
}

// orderOf translates the file of an order of a layer.
func (c *city) orderOf(f orderfile.File, l layer, formulas *formulas) orderfile.File {
	c.order(f.Table, toml.TextOf(l.rig, "name"))
	formulas.replace(f.Table, l)
	c.environment(f.Table, l)
	if l.rig != nil {
		f.Table.Remove("name")
		f.Name = rigOrder(l.rig, f.Name)
	}
	return f
}

// environment adds the variables of Gas City to an order.
func (c *city) environment(t *toml.Value, l layer) {
	own := t.Remove("env")
	if own != nil && own.Kind != toml.KindTable {
		t.Adopt(own) // the reader of orders reports it
		return
	}
	env := toml.DeriveTable(t, "env")
	set := func(name, text string) { setText(env, t, name, text) }
	set("GC_CITY", c.dir)
	set("GC_CITY_PATH", c.dir)
	set("ORDER_DIR", t.Source.Dir)
	if l.pack != "" {
		set("PACK_DIR", l.dir)
		set("GC_PACK_DIR", l.dir)
		set("GC_PACK_NAME", l.pack)
	}
	if l.rig != nil {
		root := c.rigRoot(l.rig)
		set("GC_RIG", toml.TextOf(l.rig, "name"))
		set("GC_RIG_ROOT", root)
		if t.Field("dir") == nil {
			setText(t, t, "dir", root)
		}
		if textIs(l.rig, "suspended", toml.KindBool, "true") {
			t.Put(toml.Derive(l.rig.Field("suspended"), toml.KindBool, "enabled", "false"))
		}
	}
	if own != nil {
		env.Join(own)
	}
	t.Adopt(env)
}

// coppiceEvent translates a type of events. It returns a type without an equivalent unchanged.
func coppiceEvent(name string) string {
	here := name
	switch prefix, rest, _ := strings.Cut(name, "."); {
	case name == "bead.updated":
		here = "task.edited"
	case name == "session.woke":
		here = "agent.started"
	case prefix == "bead":
		here = "task." + rest
	case prefix == "session":
		here = "agent." + rest
	case prefix == "city":
		here = "project." + rest
	}
	if event.CheckPattern(here) != nil {
		return name
	}
	return here
}
