package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// typ resolves a written type.
func (c *checker) typ(t syntax.Type, s typeScope) *types.Type {
	switch t := t.(type) {
	case *syntax.NamedType:
		got := c.namedType(t.Name, s)
		if types.TooLarge(got) {
			return c.tooLarge(t)
		}
		return got
	case *syntax.TupleType:
		if len(t.Elems) > types.MaxSize {
			return c.tooLarge(t)
		}
		return types.TupleOf(c.typeList(t.Elems, s))
	case *syntax.FuncType:
		params, result := c.typeList(t.Params, s), types.Of(types.Unit)
		if t.Result != nil {
			result = c.typ(t.Result, s)
		}
		return types.FuncOf(params, result, false)
	}
	return types.Of(types.Invalid)
}

func (c *checker) tooLarge(t syntax.Type) *types.Type {
	return c.invalid(t, CodeTooLarge, "make a record of its parts", "this type has more than %d parts", types.MaxSize)
}

func (c *checker) namedType(path *syntax.Path, s typeScope) *types.Type {
	invalid := types.Of(types.Invalid)
	last := path.Segments[len(path.Segments)-1]
	name := last.Name.Name
	if name == "" {
		return invalid
	}
	for _, seg := range path.Segments[:len(path.Segments)-1] {
		if len(seg.Args) > 0 {
			return c.invalid(seg.Name, CodeTypeName, "", "types cannot follow the name of a module")
		}
	}
	if len(path.Segments) == 1 {
		if o := s.params[name]; o != nil {
			c.info.Uses[last.Name] = o
			c.arity(path, last, 0)
			return o.Type
		}
		if kind, ok := basics[name]; ok {
			return c.basicType(path, last, kind, s)
		}
	}
	o := c.pathObject(path, s.module)
	if o == nil {
		if len(path.Segments) == 1 {
			c.unknownType(last.Name, s)
		}
		return invalid
	}
	switch o.Kind {
	case RecordName, EnumName:
		if !c.arity(path, last, len(o.Type.Decl.Params)) {
			return invalid
		}
		return types.Declared(o.Type.Kind, o.Type.Decl, c.typeList(last.Args, s))
	case AgentName:
		c.fault(path, CodeTypeName, "the type of its handle is Agent<"+o.Name+">", "`%s` is an agent, not a type",
			truncate(path.String()))
	default:
		c.fault(path, CodeTypeName, "", "`%s` is %s, not a type", truncate(path.String()), o.Kind.article())
	}
	return invalid
}

func (c *checker) typeList(list []syntax.Type, s typeScope) []*types.Type {
	if len(list) == 0 {
		return nil
	}
	of := make([]*types.Type, len(list))
	for i, t := range list {
		of[i] = c.typ(t, s)
	}
	return of
}

// arity reports a wrong number of type arguments.
func (c *checker) arity(path *syntax.Path, last syntax.Segment, want int) bool {
	if len(last.Args) == want {
		return true
	}
	name := last.Name.Name
	switch {
	case want == 0:
		c.fault(path, CodeTypeName, "write only "+truncate(name), "`%s` takes no types", truncate(name))
	case len(last.Args) == 0:
		of := strings.Join(slices.Repeat([]string{"…"}, min(want, 5)), ", ")
		c.fault(path, CodeTypeName, "write "+truncate(name)+"<"+of+">, with types in it",
			"`%s` of what? it takes %s", truncate(name), countOf(want, "type"))
	default:
		c.fault(path, CodeTypeName, "", "`%s` takes %s, and is given %d", truncate(name), countOf(want, "type"),
			len(last.Args))
	}
	return false
}

func (c *checker) basicType(path *syntax.Path, last syntax.Segment, kind types.Kind, s typeScope) *types.Type {
	name := last.Name.Name
	if name == "Fn" {
		return c.invalid(path, CodeTypeName, "write Fn(Int) -> String",
			"the type of a function has parameters and a result")
	}
	if !c.arity(path, last, basicArity[name]) {
		return types.Of(types.Invalid)
	}
	switch name {
	case "List":
		return types.ListOf(c.typ(last.Args[0], s))
	case "Map":
		key := c.typ(last.Args[0], s)
		c.keyType(last.Args[0], key)
		return types.MapOf(key, c.typ(last.Args[1], s))
	case "Oracle":
		// A model's answer is an ordinary value once it has arrived.
		return c.typ(last.Args[0], s)
	case "Agent":
		named, ok := last.Args[0].(*syntax.NamedType)
		if !ok {
			return c.invalid(last.Args[0], CodeTypeName, "write Agent<Name>, with the name of an agent",
				"this is not an agent")
		}
		if o := c.agentNamed(named.Name, s.module); o != nil {
			return o.Type
		}
		return types.Of(types.Invalid)
	}
	return types.Of(kind)
}

// keyType reports a type that cannot be the key of a map.
func (c *checker) keyType(at syntax.Node, key *types.Type) {
	if !types.Persistable(key) {
		c.fault(at, CodeTypeName, "keys are Int, String, Bool, or made of these",
			"`%s` cannot be the key of a map: functions and agents cannot be compared", key)
	}
}

// agentNamed returns the agent that a path refers to, and reports any other path.
func (c *checker) agentNamed(path *syntax.Path, m *Module) *Object {
	last := path.Last()
	if last.Name == "" {
		return nil
	}
	o := c.pathObject(path, m)
	if o == nil {
		if len(path.Segments) == 1 {
			c.fault(path, CodeName, c.didYouMeanOr(last.Name, c.names(m, AgentName), "there are "),
				"there is no agent `%s`", truncate(last.Name))
		}
		return nil
	}
	if o.Kind != AgentName {
		c.fault(path, CodeName, c.didYouMean(last.Name, c.names(m, AgentName)), "`%s` is %s, not an agent",
			truncate(path.String()), o.Kind.article())
		return nil
	}
	return o
}

// names returns the unqualified names of some kinds in the scope of a module.
func (c *checker) names(m *Module, kinds ...ObjectKind) []string {
	if c.errors > maxDiagnostics {
		return nil
	}
	var names []string
	fits := func(o *Object) bool { return o != nil && slices.Contains(kinds, o.Kind) }
	for _, d := range m.Tree.Decls {
		if _, id, _ := declares(d); id != nil && fits(c.info.Defs[id]) {
			names = append(names, id.Name)
		}
	}
	for _, u := range m.uses {
		if u.name != nil && fits(u.object) {
			names = append(names, u.name.Name)
		}
	}
	for _, n := range c.universe.order {
		if fits(c.universe.names[n]) || fits(c.universe.tools[n]) || c.universe.functions[n] != nil &&
			fits(c.universe.functions[n][0]) {
			names = append(names, n)
		}
	}
	return names
}

// importHelp names the module from which an unknown name can be used.
func (c *checker) importHelp(m *Module, name string) string {
	for _, other := range c.info.Modules {
		if o := other.Objects[name]; o != nil && other != m && (o.Pub || m.Within(other)) && other.Path != "" {
			return "use it from its module: use " + other.Path + "::" + name + ";"
		}
	}
	return ""
}

func (c *checker) unknownType(name *syntax.Ident, s typeScope) {
	help := c.importHelp(s.module, name.Name)
	if t := foreignTypes[name.Name]; help == "" && t != "" {
		help = "did you mean `" + t + "`?"
	}
	if help == "" {
		names := c.names(s.module, RecordName, EnumName)
		names = append(names, "Int", "Float", "Bool", "String", "Unit", "List", "Map", "Fn", "Agent", "Oracle")
		names = slices.AppendSeq(names, maps.Keys(s.params))
		if help = c.didYouMean(name.Name, names); help == "" {
			help = "declare it with record or enum"
		}
	}
	c.fault(name, CodeTypeName, help, "there is no type `%s`", truncate(name.Name))
}

// foreignTypes maps types of other languages to those of Sage.
var foreignTypes = map[string]string{
	"int": "Int", "i64": "Int", "i32": "Int", "u64": "Int", "u32": "Int", "usize": "Int", "Integer": "Int",
	"integer": "Int", "number": "Int", "Number": "Int", "i8": "Int", "u8": "Int", "long": "Int",
	"float": "Float", "f64": "Float", "f32": "Float", "double": "Float", "Double": "Float",
	"str": "String", "string": "String", "Str": "String", "Text": "String", "text": "String",
	"void": "Unit", "Void": "Unit", "None": "Unit", "null": "Unit", "unit": "Unit",
	"boolean": "Bool", "Boolean": "Bool", "bool": "Bool",
	"Vec": "List", "Array": "List", "array": "List", "list": "List", "Set": "List",
	"Dict": "Map", "dict": "Map", "HashMap": "Map", "map": "Map",
}

// pathObject resolves a path that does not name a variable. It returns nil for a single unknown
// name and reports all other errors.
func (c *checker) pathObject(path *syntax.Path, m *Module) *Object {
	first := path.Segments[0].Name
	var o *Object
	if len(path.Segments) > 1 {
		o = c.container(first, m)
		if o == nil {
			return nil
		}
	} else if o = c.global(first.Name, m); o == nil {
		return nil
	}
	c.info.Uses[first] = o
	for _, seg := range path.Segments[1:] {
		if o = c.member(m, o, seg.Name); o == nil {
			return nil
		}
		c.info.Uses[seg.Name] = o
	}
	return o
}

// container returns the module or enum that the first name of a path refers to.
func (c *checker) container(first *syntax.Ident, m *Module) *Object {
	name := first.Name
	if o := c.global(name, m); o != nil && (o.Kind == EnumName || o.Kind == ModuleName) {
		return o
	}
	if name == "" {
		return nil
	}
	if of := c.moduleNamed(name, m); of != nil {
		return of.asObject()
	}
	if o := c.global(name, m); o != nil {
		c.fault(first, CodeName, "", "`%s` is %s: nothing can stand after `%s::`", truncate(name), o.Kind.article(),
			truncate(name))
		return nil
	}
	help := c.importHelp(m, name)
	if help == "" {
		help = c.didYouMean(name, slices.AppendSeq(c.names(m, EnumName), maps.Keys(m.Modules)))
	}
	c.fault(first, CodeName, help, "there is no module or enum `%s`", truncate(name))
	return nil
}

// global resolves a name that is not a variable: in the module, then in the language. It returns
// the first of overloaded library functions.
func (c *checker) global(name string, m *Module) *Object {
	if o := c.lookup(m, name, nil, nil); o != nil {
		return o
	}
	if o := c.universe.names[name]; o != nil {
		return o
	}
	if fs := c.universe.functions[name]; fs != nil {
		return fs[0]
	}
	return c.universe.tools[name]
}

// article returns the kind of an object with its article, for messages.
func (k ObjectKind) article() string {
	return [...]string{
		Variable: "a variable", Parameter: "a parameter", Belief: "a belief", BeliefMethod: "a method of beliefs",
		Const: "a constant", Function: "a function", LibraryFunc: "a function of the library",
		ToolName: "a tool", ToolFunc: "a function of a tool", RecordName: "a record", RecordField: "a field",
		EnumName: "an enum", VariantName: "a variant", TypeParam: "a type parameter", AgentName: "an agent",
		SupervisorName: "a supervisor", ModuleName: "a module", ChildName: "a child",
	}[k]
}

func countOf(n int, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "one " + what
	}
	return itoa(n) + " " + what + "s"
}
