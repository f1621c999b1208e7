package check

import (
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/types"
)

// universe holds the predeclared objects.
type universe struct {
	names     map[string]*Object   // all except functions
	functions map[string][]*Object // of the library, by name
	tools     map[string]*Object
	variants  map[string]*Object // of built-in enums: Some, None, Ok, Err, …
	methods   map[string]*Object // of beliefs
	unit      *types.Type
	failure   *types.Type // the record Error
	kind      *types.Type // the enum ErrorKind
	option    *types.Decl
	result    *types.Decl
	order     []string // all names in order of declaration
}

// basics maps the built-in types except records and enums to their kinds.
var basics = map[string]types.Kind{
	"Int": types.Int, "Float": types.Float, "Bool": types.Bool, "String": types.String, "Unit": types.Unit,
	"List": types.List, "Map": types.Map, "Fn": types.Func, "Agent": types.Agent, "Oracle": types.Invalid,
}

// basicArity holds the number of type arguments of generic built-in types.
var basicArity = map[string]int{"List": 1, "Map": 2, "Oracle": 1, "Agent": 1}

// sharedUniverse returns the universe that all programs share. It is immutable.
var sharedUniverse = sync.OnceValue(newUniverse)

// newUniverse parses the library. A test makes sure that it is valid.
func newUniverse() *universe {
	u := &universe{
		names: map[string]*Object{}, functions: map[string][]*Object{}, tools: map[string]*Object{},
		variants: map[string]*Object{}, methods: map[string]*Object{}, unit: types.Of(types.Unit),
	}
	var text strings.Builder
	kinds, functions, tools := library.Types(), library.Functions(), library.Tools()
	for _, t := range kinds {
		text.WriteString(t.Declaration + "\n")
	}
	var all []*library.Function
	var owners []*library.Tool
	for i := range functions {
		all, owners = append(all, &functions[i]), append(owners, nil)
	}
	for i := range tools {
		u.tools[tools[i].Name] = &Object{Kind: ToolName, Name: tools[i].Name, Tool: &tools[i], Doc: tools[i].Doc,
			members: map[string]*Object{}}
		u.order = append(u.order, tools[i].Name)
		for k := range tools[i].Functions {
			all, owners = append(all, &tools[i].Functions[k]), append(owners, &tools[i])
		}
	}
	for _, f := range all {
		text.WriteString("extern fn " + f.Signature + "\n")
	}
	tree, _ := parser.Parse(source.NewFile("library", text.String()))
	for i, d := range tree.Decls {
		if i < len(kinds) {
			u.declare(d, kinds[i].Doc)
		}
	}
	u.option, u.result = u.names["Option"].Type.Decl, u.names["Result"].Type.Decl
	u.failure, u.kind = u.names["Error"].Type, u.names["ErrorKind"].Type
	for i, d := range tree.Decls {
		if f, ok := d.(*syntax.FuncDecl); ok && i >= len(kinds) && i-len(kinds) < len(all) {
			u.function(f, all[i-len(kinds)], owners[i-len(kinds)])
		}
	}
	for _, k := range library.Constants() {
		t := types.Of(types.Float)
		if _, ok := k.Value.(int64); ok {
			t = types.Of(types.Int)
		}
		u.add(&Object{Kind: Const, Name: k.Name, Type: t, Value: k.Value, Doc: k.Doc})
	}
	for _, name := range []string{"get", "set", "checkpoint"} {
		u.methods[name] = &Object{Kind: BeliefMethod, Name: name}
	}
	u.close()
	return u
}

// close closes the types of the library, so that checking never changes them.
func (u *universe) close() {
	for _, o := range u.names {
		types.Close(o.Type)
		if d := o.Type.Decl; d != nil {
			for _, f := range d.Fields {
				types.Close(f.Type)
			}
			for _, v := range d.Variants {
				for _, p := range v.Payload {
					types.Close(p)
				}
			}
		}
	}
	for _, fs := range u.functions {
		for _, f := range fs {
			types.Close(f.Type)
		}
	}
}

func (u *universe) add(o *Object) {
	o.Pub = true
	u.names[o.Name] = o
	u.order = append(u.order, o.Name)
}

// declare declares a record or an enum of the language.
func (u *universe) declare(d syntax.Decl, doc string) {
	switch d := d.(type) {
	case *syntax.RecordDecl:
		decl := &types.Decl{Name: d.Name.Name}
		o := &Object{Kind: RecordName, Name: d.Name.Name, Doc: doc, members: map[string]*Object{}}
		o.Type = types.Declared(types.Record, decl, nil)
		for i, f := range d.Fields {
			t := u.typ(f.Type, nil)
			decl.Fields = append(decl.Fields, types.Field{Name: f.Name.Name, Type: t})
			o.members[f.Name.Name] = &Object{Kind: RecordField, Name: f.Name.Name, Type: t, Index: i, Parent: o,
				Pub: true}
		}
		u.add(o)
	case *syntax.EnumDecl:
		decl := &types.Decl{Name: d.Name.Name}
		params := typeParams(d.TypeParams)
		for _, p := range d.TypeParams {
			decl.Params = append(decl.Params, params[p.Name])
		}
		o := &Object{Kind: EnumName, Name: d.Name.Name, Doc: doc, members: map[string]*Object{}}
		o.Type = types.Declared(types.Enum, decl, decl.Params)
		for i, v := range d.Variants {
			decl.Variants = append(decl.Variants, types.Variant{Name: v.Name.Name, Payload: u.types(v.Payload, params)})
			member := &Object{Kind: VariantName, Name: v.Name.Name, Type: o.Type, Index: i, Parent: o, Pub: true}
			o.members[v.Name.Name] = member
			if d.Name.Name != "ErrorKind" {
				u.variants[v.Name.Name] = member
			}
		}
		u.add(o)
	}
}

func typeParams(idents []*syntax.Ident) map[string]*types.Type {
	params := map[string]*types.Type{}
	for _, p := range idents {
		params[p.Name] = types.NewParam(p.Name)
	}
	return params
}

func (u *universe) function(d *syntax.FuncDecl, f *library.Function, tool *library.Tool) {
	params := typeParams(d.TypeParams)
	o := &Object{Kind: LibraryFunc, Name: d.Name.Name, Library: f, Tool: tool, Doc: f.Doc, Pub: true}
	for _, p := range d.TypeParams {
		o.params = append(o.params, params[p.Name])
	}
	of := make([]*types.Type, len(d.Params))
	for i, p := range d.Params {
		of[i] = u.typ(p.Type, params)
	}
	o.Type = types.FuncOf(of, u.typ(d.Result, params), d.Fails)
	if tool == nil {
		if u.functions[o.Name] == nil {
			u.order = append(u.order, o.Name)
		}
		u.functions[o.Name] = append(u.functions[o.Name], o)
		return
	}
	o.Kind = ToolFunc
	name := tool.Name + "." + o.Name
	u.functions[name] = append(u.functions[name], o)
	if members := u.tools[tool.Name].members; members[o.Name] == nil {
		members[o.Name] = o
	}
}

// typ resolves a type in a signature of the library.
func (u *universe) typ(t syntax.Type, params map[string]*types.Type) *types.Type {
	switch t := t.(type) {
	case *syntax.NamedType:
		seg := t.Name.Segments[0]
		name, args := seg.Name.Name, u.types(seg.Args, params)
		if p := params[name]; p != nil {
			return p
		}
		if o := u.names[name]; o != nil {
			return types.Declared(o.Type.Kind, o.Type.Decl, args)
		}
		switch k := basics[name]; k {
		case types.List:
			return types.ListOf(args[0])
		case types.Map:
			return types.MapOf(args[0], args[1])
		default:
			return types.Of(k)
		}
	case *syntax.TupleType:
		return types.TupleOf(u.types(t.Elems, params))
	case *syntax.FuncType:
		return types.FuncOf(u.types(t.Params, params), u.typ(t.Result, params), false)
	}
	return types.Of(types.Invalid)
}

func (u *universe) types(list []syntax.Type, params map[string]*types.Type) []*types.Type {
	of := make([]*types.Type, len(list))
	for i, t := range list {
		of[i] = u.typ(t, params)
	}
	return of
}
