package check

import (
	"cmp"
	"slices"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// use is a name, or all names (::*), that a module takes from another one.
type use struct {
	decl   *syntax.UseDecl
	path   []*syntax.Ident // the path to look up
	name   *syntax.Ident   // its name here; nil for ::*
	state  uint8           // unseen, active or done
	object *Object
	glob   *Object // of ::*: the module or enum
}

// resolveUses resolves all use declarations, after the objects of all modules have been collected.
func (c *checker) resolveUses() {
	for _, m := range c.info.Modules {
		c.collect(m)
	}
	c.eachDecl(func(m *Module, d syntax.Decl) {
		if d, ok := d.(*syntax.UseDecl); ok {
			c.collectUse(m, d)
		}
	})
	for _, m := range c.info.Modules {
		for _, u := range m.uses {
			c.resolveUse(m, u)
		}
	}
	for _, m := range c.info.Modules {
		clear(m.names) // some were cached before all was known
	}
}

func (c *checker) collectUse(m *Module, d *syntax.UseDecl) {
	add := func(path []*syntax.Ident, name *syntax.Ident) {
		u := &use{decl: d, path: path, name: name}
		m.uses = append(m.uses, u)
		if name == nil || name.Name == "" || name.Name == "self" {
			return
		}
		if first := m.Objects[name.Name]; first != nil {
			c.duplicate(name, CodeDuplicate, first.Span, "use it under another name: use … as …;",
				"`%s` is declared in this file, and used from another", truncate(name.Name))
			return
		}
		if first := m.aliases[name.Name]; first != nil {
			c.duplicate(name, CodeDuplicate, first.name.Span, "use one of them under another name: use … as …;",
				"`%s` is used twice", truncate(name.Name))
			return
		}
		m.aliases[name.Name] = u
	}
	if d.Glob {
		m.globbed = true
		add(d.Path, nil)
		return
	}
	if d.Names == nil {
		add(d.Path, cmp.Or(d.Alias, d.Path[len(d.Path)-1]))
		return
	}
	for _, n := range d.Names {
		add(append(slices.Clone(d.Path), n.Name), cmp.Or(n.Alias, n.Name))
	}
}

// resolveUse resolves the target of a use.
func (c *checker) resolveUse(m *Module, u *use) *Object {
	last := u.path[len(u.path)-1]
	switch u.state {
	case done:
		return u.object
	case active:
		c.fault(last, CodeName, "use it from the module that declares it",
			"`%s` is never declared: these use declarations take it from each other", truncate(last.Name))
		u.state = done
		return nil
	}
	u.state = active
	o := c.usePath(m, u)
	if u.state == done {
		return nil
	}
	u.state = done
	u.object = o
	switch {
	case o == nil:
	case u.name == nil && (o.Kind == ModuleName || o.Kind == EnumName):
		u.glob = o
	case u.name == nil:
		c.fault(last, CodeName, "::* stands after modules and enums", "`%s` is not a module", truncate(o.Name))
	case u.name != last:
		c.info.Uses[u.name] = o
	}
	return o
}

// usePath looks up the path of a use. Its first name belongs to this module or to the first file.
func (c *checker) usePath(m *Module, u *use) *Object {
	path := u.path
	var o *Object
	first := path[0]
	if first.Name == "" {
		return nil
	}
	if of := c.moduleNamed(first.Name, m); of != nil {
		o = of.asObject()
	} else if first.Name == "super" {
		c.fault(first, CodeName, "", "the first file has no module above it")
		return nil
	} else if found := m.Objects[first.Name]; found != nil && len(path) > 1 {
		o = found
	} else if alias := m.aliases[first.Name]; alias != nil && alias != u {
		if o = c.resolveUse(m, alias); o == nil {
			return nil
		}
	} else if found := c.info.Modules[0].Objects[first.Name]; found != nil {
		o = found
	} else if c.universe.tools[first.Name] != nil {
		c.fault(first, CodeName, "write it in the braces of the agent: use "+first.Name,
			"`%s` is a tool, which agents use", first.Name)
		return nil
	} else {
		c.fault(first, CodeName, c.moduleHelp(m, first.Name), "there is no module `%s`", truncate(first.Name))
		return nil
	}
	c.info.Uses[first] = o
	for _, name := range path[1:] {
		if o = c.member(m, o, name); o == nil {
			return nil
		}
		c.info.Uses[name] = o
	}
	return o
}

// moduleNamed returns the module that the first name of a path refers to, nil if it is not a
// module.
func (c *checker) moduleNamed(name string, m *Module) *Module {
	root := c.info.Modules[0]
	switch {
	case name == "self":
		return m
	case name == "super" && m.Parent != nil:
		return m.Parent
	case name == "root" || name == "crate":
		return root
	case m.Modules[name] != nil:
		return m.Modules[name]
	}
	return root.Modules[name]
}
