// Package types represents the types of Sage programs: the checker infers them,
// the evaluator validates against them, editors show them.
package types

import (
	"cmp"
	"slices"
)

// Kind is a kind of type.
type Kind uint8

// The kinds of types.
const (
	Invalid Kind = iota // of what is wrong, about which it has been said; it fits everything
	// of what has no value, since the program goes on elsewhere: return, fail, …; it fits everything
	Never
	Unit
	Bool
	Int    // 64 bits
	Float  // 64 bits
	String // UTF-8
	List   // Elems[0]
	Map    // from Elems[0] to Elems[1]
	Tuple  // two Elems or more
	Func   // Elems are those of the parameters, then that of the result
	Agent  // the handle of an agent, which is Decl
	Record // Decl with the type arguments Elems
	Enum   // Decl with the type arguments Elems; also Option and Result
	Param  // a type parameter, inside of what has it; it is Decl
	Var    // not known yet; what Resolve returns is one only as long as nothing is known
)

// Type is a type. Types are made by the functions of this package and do not
// change, except that a Var becomes known: look at the fields of what Resolve
// returns. Compare with Equal.
type Type struct {
	Kind  Kind
	Fails bool // of a Func: it can fail
	Elems []*Type
	Decl  *Decl

	bound  *Type // of a Var that is known
	closed bool  // there is no Var in it
}

// Decl is a declaration that makes a type: of a record, an enum, an agent or a
// type parameter. Two declarations are never the same type.
type Decl struct {
	Name     string
	Module   string    // the path of its module, such as "db::rows"; "" for the first file and the language itself
	Params   []*Type   // type parameters, each a Param
	Fields   []Field   // of a record, in their order
	Variants []Variant // of an enum, in their order
	Message  *Type     // of an agent: what can be sent to it; nil if nothing can
	Output   *Type     // of an agent: what it yields; Unit if it yields nothing

	generic *Type
}

// Field is a field of a record.
type Field struct {
	Name string
	Type *Type
}

// Variant is a variant of an enum and the types of what it carries.
type Variant struct {
	Name    string
	Payload []*Type
}

// Field is the index of a field, or -1.
func (d *Decl) Field(name string) int {
	return slices.IndexFunc(d.Fields, func(f Field) bool { return f.Name == name })
}

var basic = [...]*Type{
	Invalid: {Kind: Invalid}, Never: {Kind: Never}, Unit: {Kind: Unit}, Bool: {Kind: Bool},
	Int: {Kind: Int}, Float: {Kind: Float}, String: {Kind: String},
}

// Of is the type of a kind that has no parts: those from Invalid to String.
func Of(k Kind) *Type { return basic[k] }

// ListOf is List<elem>.
func ListOf(elem *Type) *Type { return &Type{Kind: List, Elems: []*Type{elem}} }

// MapOf is Map<key, value>.
func MapOf(key, value *Type) *Type { return &Type{Kind: Map, Elems: []*Type{key, value}} }

// TupleOf is (elems); of none it is Unit, of one that one.
func TupleOf(elems []*Type) *Type {
	switch len(elems) {
	case 0:
		return Of(Unit)
	case 1:
		return elems[0]
	}
	return &Type{Kind: Tuple, Elems: elems}
}

// FuncOf is Fn(params) -> result.
func FuncOf(params []*Type, result *Type, fails bool) *Type {
	elems := make([]*Type, 0, len(params)+1)
	return &Type{Kind: Func, Fails: fails, Elems: append(append(elems, params...), result)}
}

// AgentOf is Agent<decl>.
func AgentOf(decl *Decl) *Type { return &Type{Kind: Agent, Decl: decl} }

// Declared is a declared record or enum with type arguments.
func Declared(kind Kind, decl *Decl, args []*Type) *Type {
	if len(args) == 0 {
		if decl.generic == nil {
			decl.generic = &Type{Kind: kind, Decl: decl}
		}
		return decl.generic
	}
	return &Type{Kind: kind, Decl: decl, Elems: args}
}

// NewParam is a new type parameter.
func NewParam(name string) *Type { return &Type{Kind: Param, Decl: &Decl{Name: name}} }

// NewVar is a type that is not known yet.
func NewVar() *Type { return &Type{Kind: Var} }

// Params are the types of the parameters of a Func.
func (t *Type) Params() []*Type { return t.Elems[:len(t.Elems)-1] }

// Result is the type of the result of a Func.
func (t *Type) Result() *Type { return t.Elems[len(t.Elems)-1] }

// Resolve is the type that t has become known to be.
func (t *Type) Resolve() *Type {
	if t.Kind != Var || t.bound == nil {
		return t
	}
	root := t
	for root.Kind == Var && root.bound != nil {
		root = root.bound
	}
	for t != root {
		t.bound, t = root, t.bound
	}
	return root
}

// Subst is t with other types for type parameters.
func Subst(t *Type, params, args []*Type) *Type {
	if len(params) == 0 {
		return t
	}
	t = t.Resolve()
	if t.Kind == Param {
		if i := slices.Index(params, t); i >= 0 && i < len(args) {
			return args[i]
		}
		return t
	}
	var changed *Type
	for i, e := range t.Elems {
		s := Subst(e, params, args)
		if s != e && changed == nil {
			c := *t
			c.closed, c.Elems = false, slices.Clone(t.Elems)
			changed = &c
		}
		if changed != nil {
			changed.Elems[i] = s
		}
	}
	return cmp.Or(changed, t)
}

// FieldType is the type of the ith field of a record.
func (t *Type) FieldType(i int) *Type {
	t = t.Resolve()
	return Subst(t.Decl.Fields[i].Type, t.Decl.Params, t.Elems)
}

// Payload are the types of what the ith variant of an enum carries.
func (t *Type) Payload(i int) []*Type {
	t = t.Resolve()
	payload := t.Decl.Variants[i].Payload
	if len(t.Elems) == 0 || len(payload) == 0 {
		return payload
	}
	types := make([]*Type, len(payload))
	for k, p := range payload {
		types[k] = Subst(p, t.Decl.Params, t.Elems)
	}
	return types
}
