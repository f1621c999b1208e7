package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
)

// use is a name that a module takes from another, or all of them.
type use struct {
	decl   *syntax.UseDecl
	path   []*syntax.Ident // what to look up
	name   *syntax.Ident   // what it is called here
	state  uint8           // whether it is being looked up
	object *Object
	glob   *Object // of ::*: what all is taken from
}

// resolveUses finds out what the names in all use declarations stand for. The
// objects of all modules must have been collected.
func (c *checker) resolveUses() {
	for _, m := range c.info.Modules {
		c.collect(m)
	}
	for _, m := range c.info.Modules {
		for _, d := range m.Tree.Decls {
			if d, ok := d.(*syntax.UseDecl); ok {
				c.collectUse(m, d)
			}
		}
	}
	for _, m := range c.info.Modules {
		for _, u := range m.uses {
			c.resolveUse(m, u)
		}
	}
	for _, m := range c.info.Modules {
		clear(m.names) // some were looked for before all was known
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
			c.twice(name, CodeDuplicate, first.Span, "use it under another name: use … as …;",
				"`%s` is declared in this file, and used from another", brief(name.Name))
			return
		}
		if first := m.aliases[name.Name]; first != nil {
			c.twice(name, CodeDuplicate, first.name.Span, "use one of them under another name: use … as …;",
				"`%s` is used twice", brief(name.Name))
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
		name := d.Path[len(d.Path)-1]
		if d.Alias != nil {
			name = d.Alias
		}
		add(d.Path, name)
		return
	}
	for _, n := range d.Names {
		name := n.Name
		if n.Alias != nil {
			name = n.Alias
		}
		path := append(append([]*syntax.Ident{}, d.Path...), n.Name)
		add(path, name)
	}
}

// resolveUse finds what a use takes.
func (c *checker) resolveUse(m *Module, u *use) *Object {
	switch u.state {
	case done:
		return u.object
	case active:
		c.fault(u.path[len(u.path)-1], CodeName, "use it from the module that declares it",
			"`%s` is never declared: these use declarations take it from each other", brief(u.path[len(u.path)-1].Name))
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
	if o == nil {
		return nil
	}
	if u.name == nil {
		if o.Kind == ModuleName || o.Kind == EnumName {
			u.glob = o
		} else {
			c.fault(u.path[len(u.path)-1], CodeName, "::* stands behind modules and enums", "`%s` is no module",
				brief(o.Name))
		}
		return o
	}
	if u.name != u.path[len(u.path)-1] {
		c.info.Uses[u.name] = o
	}
	return o
}

// usePath looks up the path of a use. Its first name is one of this module or
// of the first file.
func (c *checker) usePath(m *Module, u *use) *Object {
	path := u.path
	var o *Object
	first := path[0]
	switch first.Name {
	case "":
		return nil
	case "self":
		o = m.itself()
	case "super":
		if m.Parent == nil {
			c.fault(first, CodeName, "", "the first file has no module above it")
			return nil
		}
		o = m.Parent.itself()
	case "root", "crate":
		o = c.info.Modules[0].itself()
	default:
		if child := m.Modules[first.Name]; child != nil {
			o = child.itself()
		} else if child := c.info.Modules[0].Modules[first.Name]; child != nil {
			o = child.itself()
		} else if found := m.Objects[first.Name]; found != nil && len(path) > 1 {
			o = found
		} else if alias := m.aliases[first.Name]; alias != nil && alias != u {
			o = c.resolveUse(m, alias)
			if o == nil {
				return nil
			}
		} else if found := c.info.Modules[0].Objects[first.Name]; found != nil {
			o = found
		} else if c.universe.tools[first.Name] != nil {
			c.fault(first, CodeName, "write it in the braces of the agent: use "+first.Name,
				"`%s` is a tool, which agents use", first.Name)
			return nil
		} else {
			c.fault(first, CodeName, c.missingModule(m, first.Name), "there is no module `%s`", brief(first.Name))
			return nil
		}
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
