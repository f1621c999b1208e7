package lsp

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// placeholder is inserted as the name to be completed, because an incomplete construct mostly
// parses once it has a name there.
const placeholder = "zzwanted"

func (s *server) complete(p *positionParams) (completionList, error) {
	list := completionList{Items: []completionItem{}}
	v := s.view()
	a := s.find(v, p.TextDocument.URI, p.Position)
	if a == nil {
		return list, nil
	}
	text := a.file().Text
	start := len(strings.TrimRightFunc(text[:a.offset], isWord))
	end := len(text) - len(strings.TrimLeftFunc(text[a.offset:], isWord))
	edit := textRange{positionAt(a.file(), start), positionAt(a.file(), a.offset)}
	changed := s.analyse(a.analysis.program, v.with(map[string]string{a.path: text[:start] + placeholder + text[end:]}))
	m := changed.module(a.path)
	if m == nil {
		return list, nil
	}
	c := completer{info: changed.info, module: m, offset: start, seen: map[string]bool{}}
	c.find()
	slices.SortStableFunc(c.items, func(a, b completionItem) int { return cmp.Compare(a.SortText, b.SortText) })
	for _, item := range c.items {
		item.TextEdit = &textEdit{Range: edit, NewText: item.Label}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z'
}

// completer collects the completions for a place.
type completer struct {
	info   *check.Info
	module *check.Module
	offset int
	path   []syntax.Node // enclosing nodes, innermost last
	items  []completionItem
	seen   map[string]bool
}

// up returns the nth node above the innermost one, nil if there is none.
func (c *completer) up(n int) syntax.Node {
	if i := len(c.path) - 1 - n; i >= 0 {
		return c.path[i]
	}
	return nil
}

func (c *completer) find() {
	for _, comment := range c.module.Tree.Comments {
		if c.offset > int(comment.Start) && c.offset <= int(comment.End) {
			return
		}
	}
	c.path = enclosing(c.module.Tree, c.offset+1)
	name, ok := c.up(0).(*syntax.Ident)
	if !ok || name.Name != placeholder {
		switch c.up(0).(type) {
		case *syntax.StringLit, *syntax.TemplateLit, *syntax.IntLit, *syntax.FloatLit:
			return
		}
		c.path = append(c.path, nil)
		c.elsewhere()
		return
	}
	switch n := c.up(1).(type) {
	case *syntax.FieldExpr:
		c.members(n)
	case *syntax.Path:
		c.inPath(n, name)
	case *syntax.UseDecl:
		c.inUse(n, name)
	case *syntax.FieldInit:
		if n.Name == name {
			c.fieldNames()
		} else {
			c.value(n)
		}
	case *syntax.UseClause:
		for _, t := range library.Tools() {
			c.add(completionItem{Label: t.Name, Kind: itemModule, Documentation: markdown(t.Doc)})
		}
	case *syntax.Handler:
		c.words(itemKeyword, "start", "waking", "resting", "error", "message", "pause", "resume")
	case *syntax.Field:
		if n.Name == name {
			c.elsewhere()
		}
	case *syntax.BindPat:
		c.pattern()
	case *syntax.LetStmt, *syntax.Param, *syntax.FuncDecl, *syntax.AgentDecl, *syntax.SupervisorDecl,
		*syntax.RecordDecl, *syntax.EnumDecl, *syntax.ConstDecl, *syntax.Variant, *syntax.ModDecl,
		*syntax.CatchExpr, *syntax.ToolDecl, *syntax.ProtocolDecl, *syntax.EffectDecl:
		if !declares(n, name) {
			c.expression()
		}
	default:
		c.expression()
	}
}

// declares reports whether a node declares the name, which is then a new one.
func declares(n syntax.Node, name *syntax.Ident) bool {
	switch n := n.(type) {
	case *syntax.LetStmt:
		return n.Value != syntax.Expr(name)
	case *syntax.ConstDecl:
		return n.Value != syntax.Expr(name)
	case *syntax.CatchExpr:
		return n.Err == name
	}
	return true
}

// elsewhere offers completions where there is no name, or the name of a member.
func (c *completer) elsewhere() {
	for _, node := range slices.Backward(c.path) {
		switch n := node.(type) {
		case *syntax.ChildrenBlock:
			c.kinds(check.AgentName, check.SupervisorName)
			return
		case *syntax.Child:
			c.childParts(n)
			return
		case *syntax.SupervisorDecl:
			c.words(itemKeyword, "strategy", "children")
			return
		case *syntax.AgentDecl:
			c.words(itemKeyword, "on", "use", "@persistent")
			return
		case *syntax.Block:
			c.expression()
			return
		case *syntax.File:
			c.words(itemKeyword, "agent", "supervisor", "fn", "record", "enum", "const", "test", "use", "mod", "pub",
				"run")
			return
		}
	}
}

func (c *completer) inPath(p *syntax.Path, name *syntax.Ident) {
	if i := slices.IndexFunc(p.Segments, func(s syntax.Segment) bool { return s.Name == name }); i > 0 {
		c.inside(objectOf(c.info, p.Segments[i-1].Name))
		return
	}
	switch n := c.up(2).(type) {
	case *syntax.NamedType:
		c.kinds(check.RecordName, check.EnumName, check.TypeParam)
		c.words(itemType, "Int", "Float", "Bool", "String", "Unit", "List", "Map", "Option", "Result", "Fn", "Agent",
			"Oracle", "Error", "ErrorKind")
	case *syntax.Child, *syntax.RunDecl:
		c.kinds(check.AgentName, check.SupervisorName)
	case *syntax.SummonExpr:
		if n.Agent == p {
			c.kinds(check.AgentName)
		}
	case *syntax.VariantPat:
		c.pattern()
	default:
		c.expression()
	}
}

func (c *completer) inUse(d *syntax.UseDecl, name *syntax.Ident) {
	before := d.Path
	if i := slices.Index(d.Path, name); i >= 0 {
		before = d.Path[:i]
	}
	if len(before) > 0 {
		c.inside(objectOf(c.info, before[len(before)-1]))
		return
	}
	for m := c.module; m != nil; m = m.Parent {
		c.modules(m)
	}
	c.words(itemKeyword, "super")
}

func last(path string) string {
	return path[strings.LastIndexByte(path, ':')+1:]
}

// inside offers the members of an object after ::.
func (c *completer) inside(o *check.Object) {
	switch {
	case o == nil:
	case o.Kind == check.ModuleName && o.Of != nil:
		for _, member := range c.exported(o.Of) {
			c.object(member)
		}
		c.modules(o.Of)
	case o.Kind == check.EnumName && o.Type != nil && o.Type.Decl != nil:
		c.variants(o.Type.Decl)
	}
}

// exported returns the objects of a module that can be used in the current module.
func (c *completer) exported(m *check.Module) []*check.Object {
	return slices.DeleteFunc(slices.Collect(maps.Values(m.Objects)),
		func(o *check.Object) bool { return !o.Pub && !c.module.Within(m) })
}

func (c *completer) variants(d *types.Decl) {
	for _, v := range d.Variants {
		item := completionItem{Label: v.Name, Kind: itemMember, Detail: d.Name + "::" + v.Name}
		if len(v.Payload) > 0 {
			payload := make([]string, len(v.Payload))
			for i, t := range v.Payload {
				payload[i] = t.String()
			}
			item.Detail += "(" + strings.Join(payload, ", ") + ")"
		}
		c.add(item)
	}
}

// fieldNames offers names before the colon of a field.
func (c *completer) fieldNames() {
	switch n := c.up(2).(type) {
	case *syntax.Child:
		c.childParts(n)
	case *syntax.SupervisorDecl:
		c.words(itemKeyword, "strategy", "children")
	case *syntax.RecordLit:
		if o := objectOf(c.info, n.Name.Last()); o != nil && o.Type != nil && o.Type.Decl != nil {
			for _, f := range o.Type.Decl.Fields {
				c.add(completionItem{Label: f.Name, Kind: itemField, Detail: f.Name + ": " + f.Type.String()})
			}
		}
	case *syntax.SummonExpr:
		c.beliefs(objectOf(c.info, n.Agent.Last()))
	case *syntax.RunDecl:
		c.beliefs(objectOf(c.info, n.Target.Last()))
	}
}

func (c *completer) childParts(n *syntax.Child) {
	c.words(itemKeyword, "restart")
	if n.Target != nil {
		c.beliefs(objectOf(c.info, n.Target.Last()))
	}
}

func (c *completer) beliefs(agent *check.Object) {
	for _, a := range c.info.Agents {
		if a.Object == agent {
			for _, b := range a.Beliefs {
				c.object(b)
			}
		}
	}
}

// value offers values after the colon of a field.
func (c *completer) value(f *syntax.FieldInit) {
	switch c.up(2).(type) {
	case *syntax.Child:
		if f.Name.Name == "restart" {
			c.words(itemMember, "Permanent", "Transient", "Temporary")
			return
		}
		c.siblings()
	case *syntax.SupervisorDecl:
		if f.Name.Name == "strategy" {
			c.words(itemMember, "OneForOne", "OneForAll", "RestForOne")
		}
		return
	}
	c.expression()
}

// siblings offers the names of the sibling children.
func (c *completer) siblings() {
	for _, n := range c.path {
		if block, ok := n.(*syntax.ChildrenBlock); ok {
			for _, child := range block.Children {
				if child.Name != nil && c.info.Defs[child.Name] != nil {
					c.object(c.info.Defs[child.Name])
				}
			}
		}
	}
}

// pattern offers patterns for the operand of a match.
func (c *completer) pattern() {
	for i := len(c.path) - 1; i >= 0; i-- {
		if arm, ok := c.path[i].(*syntax.MatchArm); ok && covers(arm.Pattern, c.offset) {
			if match, ok := c.path[i-1].(*syntax.MatchExpr); ok {
				if t := c.info.Types[match.X]; t != nil && t.Resolve().Decl != nil {
					c.variants(t.Resolve().Decl)
				}
			}
			c.kinds(check.EnumName)
			c.words(itemKeyword, "true", "false")
			return
		}
	}
}
