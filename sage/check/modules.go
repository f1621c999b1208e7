package check

import (
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/types"
)

const (
	unseen uint8 = iota
	active
	done
)

// module parses a file and the modules that it declares.
func (c *checker) module(file *source.File, parent *Module, d *syntax.ModDecl) *Module {
	tree, diagnostics := parser.Parse(file)
	for _, d := range diagnostics {
		c.report(d)
		c.malformed[file] = true
	}
	m := &Module{
		File: file, Tree: tree, Parent: parent,
		Modules: map[string]*Module{}, Objects: map[string]*Object{}, names: map[string]*Object{},
		aliases: map[string]*use{},
	}
	depth := 0
	for p := parent; p != nil; p = p.Parent {
		depth++
	}
	if parent != nil {
		m.Path = d.Name.Name
		if parent.Path != "" {
			m.Path = parent.Path + "::" + d.Name.Name
		}
		m.pub = d.Pub
	}
	c.info.Modules = append(c.info.Modules, m)
	for _, d := range tree.Decls {
		if d, ok := d.(*syntax.ModDecl); ok && d.Name.Name != "" {
			c.child(m, d, depth)
		}
	}
	return m
}

// child reads a module that m declares.
func (c *checker) child(m *Module, d *syntax.ModDecl, depth int) {
	name := d.Name.Name
	if first := m.Modules[name]; first != nil {
		c.fault(d.Name, CodeDuplicate, "remove one of the two lines", "module `%s` is declared twice", truncate(name))
		return
	}
	if depth >= maxModuleDepth || len(c.info.Modules) >= maxModules {
		c.fault(d.Name, CodeModule, "does a module declare itself?",
			"there are more than %d modules, or they are more than %d levels deep", maxModules, maxModuleDepth)
		return
	}
	if c.config.Load == nil {
		c.fault(d.Name, CodeModule, "put the program into a file in a directory",
			"module `%s` cannot be read: this program has only one file", truncate(name))
		return
	}
	file, err := c.config.Load(m, name)
	if err != nil {
		c.fault(d.Name, CodeModule, "", "module `%s` cannot be read: %s", truncate(name), err)
		return
	}
	for p := m; p != nil; p = p.Parent {
		if p.File.Name == file.Name {
			c.fault(d.Name, CodeModule, "a module is declared once, by the file above it; elsewhere it is used: use "+
				truncate(name)+"::…;", "module `%s` contains itself: it is the file %s", truncate(name), file.Name)
			return
		}
	}
	child := c.module(file, m, d)
	m.Modules[name] = child
	o := &Object{Kind: ModuleName, Name: name, Span: d.Name.Span, Node: d, Module: m, Pub: d.Pub, Of: child}
	c.info.Defs[d.Name] = o
	child.object = o
}

func (c *checker) moduleHelp(m *Module, name string) string {
	names := slices.Collect(maps.Keys(m.Modules))
	names = slices.AppendSeq(names, maps.Keys(c.info.Modules[0].Modules))
	if help := c.didYouMean(name, names); help != "" {
		return help
	}
	return "declare it first, in the file above it: mod " + truncate(name) + ";"
}

// asObject returns the object of a module.
func (m *Module) asObject() *Object {
	if m.object == nil {
		m.object = &Object{Kind: ModuleName, Name: "root", Pub: true, Of: m}
	}
	return m.object
}

// Within reports whether m is outer or below it.
func (m *Module) Within(outer *Module) bool {
	for ; m != nil; m = m.Parent {
		if m == outer {
			return true
		}
	}
	return false
}

// title returns the name of a module for messages.
func (m *Module) title() string {
	if m.Path == "" {
		return "the first file"
	}
	return "module `" + m.Path + "`"
}

// member resolves a name after :: as seen from m, and reports errors.
func (c *checker) member(m *Module, o *Object, name *syntax.Ident) *Object {
	switch {
	case name.Name == "":
		return nil
	case o.Kind == EnumName:
		v := o.members[name.Name]
		if v == nil {
			c.fault(name, CodeName, c.didYouMeanOr(name.Name, variantNames(o.Type.Decl), "its variants are "),
				"enum `%s` has no variant `%s`", o.Name, truncate(name.Name))
		}
		return v
	case o.Kind != ModuleName:
		c.fault(name, CodeName, "", "nothing can stand after `%s::`", truncate(o.Name))
		return nil
	}
	if name.Name == "super" && o.Of.Parent != nil && m.Within(o.Of) {
		return o.Of.Parent.asObject()
	}
	found := c.lookup(o.Of, name.Name, m, nil)
	if found == nil {
		if child := o.Of.Modules[name.Name]; child != nil {
			found = child.asObject()
		}
	}
	if found == nil {
		if hidden := c.lookup(o.Of, name.Name, nil, nil); hidden != nil {
			c.private(name, hidden, o.Of)
			return nil
		}
		names := make([]string, 0, len(o.Of.Objects))
		for n, object := range o.Of.Objects {
			if object.Pub {
				names = append(names, n)
			}
		}
		c.fault(name, CodeName, c.didYouMean(name.Name, names), "%s has no `%s`", o.Of.title(), truncate(name.Name))
		return nil
	}
	if !found.Pub && found.Module != nil && !m.Within(found.Module) {
		c.private(name, found, o.Of)
		return nil
	}
	return found
}

func (c *checker) private(name *syntax.Ident, o *Object, m *Module) {
	c.duplicate(name, CodePrivate, o.Span, "write pub before its declaration", "`%s` is private in %s",
		truncate(name.Name), m.title())
}

func variantNames(d *types.Decl) []string {
	names := make([]string, len(d.Variants))
	for i, v := range d.Variants {
		names[i] = v.Name
	}
	return names
}

// lookup resolves a name in a module: a declaration, then a name that it uses, then the names that
// it uses with ::*. As seen from another module (from), only names used with pub count. A nil from
// sees all.
func (c *checker) lookup(m *Module, name string, from *Module, seen map[*Module]bool) *Object {
	if o := m.Objects[name]; o != nil {
		return o
	}
	inside := from == nil || from.Within(m)
	if inside && seen == nil {
		if o, ok := m.names[name]; ok {
			return o
		}
	}
	if u := m.aliases[name]; u != nil && (inside || u.decl.Pub) {
		return c.resolveUse(m, u)
	}
	var found *Object
	if m.globbed {
		if seen[m] {
			return nil
		}
		if seen == nil {
			seen = map[*Module]bool{}
			if inside {
				defer func() { m.names[name] = found }()
			}
		}
		seen[m] = true
		for _, u := range m.uses {
			if u.name != nil || !inside && !u.decl.Pub || u.state == active {
				continue
			}
			o := c.resolveUse(m, u)
			if o == nil || u.glob == nil {
				continue
			}
			if o.Kind == EnumName {
				found = o.members[name]
			} else if f := c.lookup(o.Of, name, m, seen); f != nil && (f.Pub || m.Within(f.Module)) {
				found = f
			}
			if found != nil {
				break
			}
		}
	}
	return found
}

// didYouMean returns the help for a misspelled name.
func (c *checker) didYouMean(name string, names []string) string {
	if c.errors > maxDiagnostics {
		return ""
	}
	return didYouMean(name, names)
}

// didYouMeanOr returns the help for a misspelled name, or a list of all names.
func (c *checker) didYouMeanOr(name string, names []string, all string) string {
	if help := c.didYouMean(name, names); help != "" {
		return help
	}
	if len(names) == 0 {
		return ""
	}
	return all + choices(names)
}
