package config

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// layer is a directory with orders: of a pack, or of the city itself.
type layer struct {
	dir  string
	pack string // its name; "" for the city
	rig  *value // that it is for; nil for the city
}

// orderFiles reads the files of orders. Those of a later layer replace those of an
// earlier one that have the same name.
func (c *city) orderFiles() (all []orderFile) {
	if !c.g.canRead() {
		return nil // no file can be read
	}
	before := map[string]int{}
	for _, l := range c.layers {
		first := len(all)
		for _, f := range readOrders(c.r, c.g, l.dir, orderPatterns()...) {
			f = c.orderOf(f, l)
			if at, ok := before[f.name]; ok {
				all[at] = f
			} else {
				all = append(all, f)
			}
		}
		for i := first; i < len(all); i++ {
			before[all[i].name] = i
		}
	}
	return all
}

// orderPatterns are where the files of orders are; those of cities may be beside their formulas.
func orderPatterns() []string {
	return []string{"orders/*.toml", "orders/*/order.toml", "formulas/orders/*/order.toml"}
}

// rigOrder is the name of an order that a pack has for a rig, as those of its agents are.
func rigOrder(rig *value, name string) string { return textOf(rig, "name") + "--" + name }

// orders makes [orders], and reads the files of orders.
func (c *city) orders(document, out *value) (files []orderFile) {
	files = c.orderFiles()
	from := c.table(document, "orders")
	if from == nil {
		return files
	}
	known := map[string]bool{}
	for _, f := range files {
		known[f.name] = true
	}
	t := madeTable(from, "orders")
	for _, f := range from.fields {
		if k := c.tables["[orders]"].key(f.name); k == nil || k.unused {
			continue
		}
		if f.name == "skip" {
			t.put(c.skipped(f, known))
		} else {
			t.put(copyOf(f, f.name))
		}
	}
	for _, o := range tablesOf(t.byName["overrides"]) {
		rig, name := o.remove("rig"), o.byName["name"]
		if rig != nil && c.r.want(rig, isString, "the name of a rig") && rig.text != "" && name != nil {
			o.put(made(name, name.kind, "name", rig.text+"--"+name.text))
		}
		c.order(o, textOf(c.rigs[textOf(o, "rig")], "name"))
	}
	out.adopt(t)
	return files
}

// skipped are the orders that are to be skipped: one that rigs have is meant in each of them.
func (c *city) skipped(skip *value, known map[string]bool) *value {
	if skip.kind != isArray {
		return copyOf(skip, "skip") // the reader reports it
	}
	list := made(skip, isArray, "skip", "")
	add := func(e *value) {
		e.parent = list
		list.append(e)
	}
	for _, e := range skip.elements {
		before := len(list.elements)
		for _, l := range c.layers {
			if l.rig == nil {
				continue
			}
			if name := rigOrder(l.rig, e.text); known[name] {
				add(made(e, isString, e.name, name))
			}
		}
		if len(list.elements) == before || known[e.text] {
			add(copyOf(e, ""))
		}
	}
	return list
}

// order makes the keys of an order, which may be one for a rig, ours.
func (c *city) order(t *value, rig string) {
	if pool := t.byName["pool"]; pool != nil && pool.kind == isString {
		if called, ok := c.meant(pool.text, rig, ""); ok {
			t.put(made(pool, isString, "pool", called))
		} else {
			c.r.notice(pool, "no agent is called %s: nobody does these tasks",
				spec.Quote(strings.TrimPrefix(rig+"/"+pool.text, "/")))
		}
	}
	if on := t.byName["on"]; on != nil && on.kind == isString {
		t.put(made(on, isString, "on", eventHere(on.text)))
	}
}

// orderOf makes the file of an order, of a layer, ours.
func (c *city) orderOf(f orderFile, l layer) orderFile {
	c.order(f.table, textOf(l.rig, "name"))
	c.formula(f.table, l)
	c.environment(f.table, l)
	if l.rig != nil {
		f.table.remove("name")
		f.name = rigOrder(l.rig, f.name)
	}
	return f
}

// environment gives an order what Gas City tells it.
func (c *city) environment(t *value, l layer) {
	own := t.remove("env")
	if own != nil && own.kind != isTable {
		t.adopt(own) // which is told later
		return
	}
	env := madeTable(t, "env")
	set := func(name, text string) { env.put(made(t, isString, name, text)) }
	set("GC_CITY", c.dir)
	set("GC_CITY_PATH", c.dir)
	set("ORDER_DIR", t.src.dir)
	if l.pack != "" {
		set("PACK_DIR", l.dir)
		set("GC_PACK_DIR", l.dir)
		set("GC_PACK_NAME", l.pack)
	}
	if l.rig != nil {
		root := under(c.dir, textOf(l.rig, "path"))
		set("GC_RIG", textOf(l.rig, "name"))
		set("GC_RIG_ROOT", root)
		if t.byName["dir"] == nil {
			t.put(made(t, isString, "dir", root))
		}
		if textIs(l.rig, "suspended", isBool, "true") {
			t.put(made(l.rig.byName["suspended"], isBool, "enabled", "false"))
		}
	}
	if own != nil {
		env.join(own)
	}
	t.adopt(env)
}

// eventHere returns the name here of a type of events of Gas City; the same one if there is none.
func eventHere(name string) string {
	here := name
	switch {
	case name == "bead.updated":
		here = "task.edited"
	case name == "session.woke":
		here = "agent.started"
	case strings.HasPrefix(name, "bead."):
		here = "task." + strings.TrimPrefix(name, "bead.")
	case strings.HasPrefix(name, "session."):
		here = "agent." + strings.TrimPrefix(name, "session.")
	case strings.HasPrefix(name, "city."):
		here = "project." + strings.TrimPrefix(name, "city.")
	}
	if event.CheckPattern(here) != nil {
		return name
	}
	return here
}
