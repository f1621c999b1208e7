// Package types represents the types of Sage programs. The checker infers them, the evaluator
// validates values against them, and editors show them.
package types

import (
	"cmp"
	"slices"
)

// Kind is a kind of type.
type Kind uint8

// The kinds of types.
const (
	Invalid Kind = iota // after an error that has been reported; fits every type
	// of an expression that does not complete, such as return or fail; fits every type
	Never
	Unit
	Bool
	Int    // 64 bits
	Float  // 64 bits
	String // UTF-8
	List   // Elems[0]
	Map    // keys are Elems[0], values Elems[1]
	Tuple  // at least two Elems
	Func   // Elems are the parameters followed by the result
	Agent  // handle of the agent Decl
	Record // Decl with the type arguments Elems
	Enum   // Decl with the type arguments Elems; also Option and Result
	Param  // the type parameter Decl, inside the declaration that has it
	Var    // not known yet; see Resolve
)

// Type is a type. Only the functions of this package create types. They do not change, except that
// a Var becomes known: read the fields of the type that Resolve returns. Compare types with Equal.
type Type struct {
	Kind  Kind
	Fails bool // of a Func that can fail
	Elems []*Type
	Decl  *Decl

	bound  *Type // of a Var whose type is known
	closed bool  // contains no Var
}

// Decl is the declaration of a record, an enum, an agent or a type parameter. Types of different
// declarations are different.
type Decl struct {
	Name     string
	Module   string    // path such as "db::rows"; "" for the first file and the language itself
	Params   []*Type   // type parameters, each a Param
	Fields   []Field   // of a record
	Variants []Variant // of an enum
	Message  *Type     // of an agent: type of its messages; nil if it takes none
	Output   *Type     // of an agent: type it yields; Unit if it yields nothing

	generic *Type
}

// Field is a field of a record.
type Field struct {
	Name string
	Type *Type
}

// Variant is a variant of an enum with the types of its payload.
type Variant struct {
	Name    string
	Payload []*Type
}

// Field returns the index of a field, or -1.
func (d *Decl) Field(name string) int {
	return slices.IndexFunc(d.Fields, func(f Field) bool { return f.Name == name })
}

var basic = [...]*Type{
	Invalid: {Kind: Invalid}, Never: {Kind: Never}, Unit: {Kind: Unit}, Bool: {Kind: Bool},
	Int: {Kind: Int}, Float: {Kind: Float}, String: {Kind: String},
}

// Of returns the type of a kind without parts: Invalid to String.
func Of(k Kind) *Type { return basic[k] }

// ListOf returns List<elem>.
func ListOf(elem *Type) *Type { return &Type{Kind: List, Elems: []*Type{elem}} }

// MapOf returns Map<key, value>.
func MapOf(key, value *Type) *Type { return &Type{Kind: Map, Elems: []*Type{key, value}} }

// TupleOf returns (elems). Without elements it returns Unit, and a single element is returned
// itself.
func TupleOf(elems []*Type) *Type {
	switch len(elems) {
	case 0:
		return Of(Unit)
	case 1:
		return elems[0]
	}
	return &Type{Kind: Tuple, Elems: elems}
}

// FuncOf returns Fn(params) -> result.
func FuncOf(params []*Type, result *Type, fails bool) *Type {
	elems := make([]*Type, 0, len(params)+1)
	return &Type{Kind: Func, Fails: fails, Elems: append(append(elems, params...), result)}
}

// AgentOf returns Agent<decl>.
func AgentOf(decl *Decl) *Type { return &Type{Kind: Agent, Decl: decl} }

// Declared returns a declared record or enum with type arguments.
func Declared(kind Kind, decl *Decl, args []*Type) *Type {
	if len(args) == 0 {
		if decl.generic == nil {
			decl.generic = &Type{Kind: kind, Decl: decl}
		}
		return decl.generic
	}
	return &Type{Kind: kind, Decl: decl, Elems: args}
}

// NewParam returns a new type parameter.
func NewParam(name string) *Type { return &Type{Kind: Param, Decl: &Decl{Name: name}} }

// NewVar returns a type that is not known yet.
func NewVar() *Type { return &Type{Kind: Var} }

// Params returns the types of the parameters of a Func.
func (t *Type) Params() []*Type { return t.Elems[:len(t.Elems)-1] }

// Result returns the type of the result of a Func.
func (t *Type) Result() *Type { return t.Elems[len(t.Elems)-1] }

// Resolve returns the type that a Var stands for, and t itself if t is not a Var or not known yet.
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

// Subst replaces type parameters by arguments.
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

// FieldType returns the type of the ith field of a record.
func (t *Type) FieldType(i int) *Type {
	t = t.Resolve()
	return Subst(t.Decl.Fields[i].Type, t.Decl.Params, t.Elems)
}

// Payload returns the types of the payload of the ith variant of an enum.
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
