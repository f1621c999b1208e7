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

// orderPatterns are where the files of orders are; those of cities may be beside their formulas.
func orderPatterns(city bool) []string {
	all := []string{"orders/*.toml", "orders/*/order.toml"}
	if city {
		all = append(all, "formulas/orders/*/order.toml")
	}
	return all
}

// rigOrder is the name of an order that a pack has for a rig, as those of its agents are.
func rigOrder(rig *value, name string) string { return textOf(rig, "name") + "--" + name }

// orders makes [orders].
func (c *city) orders(document, out *value) {
	from := c.table(document, "orders")
	if from == nil {
		return
	}
	t := madeTable(from, "orders")
	for _, f := range from.fields {
		if k := c.tables["[orders]"].key(f.name); k != nil && !k.unused {
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
}

// skipped are the orders that are to be skipped: one that rigs have is meant in each of them.
func (c *city) skipped(skip []*value, known map[string]*value) (all []*value) {
	for _, e := range skip {
		before := len(all)
		for _, l := range c.layers {
			if l.rig == nil {
				continue
			}
			if name := rigOrder(l.rig, e.text); known[name] != nil {
				all = append(all, made(e, isString, e.name, name))
			}
		}
		if len(all) == before || known[e.text] != nil {
			all = append(all, e)
		}
	}
	return all
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
func (c *city) orderOf(o *orderForm, l layer) {
	c.order(o.table, textOf(l.rig, "name"))
	c.formula(o.table, l)
	c.environment(o.table, l)
	if l.rig == nil {
		return
	}
	o.table.remove("name")
	o.file = rigOrder(l.rig, o.file)
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
