package types

import "slices"

// MaxSize bounds the parts of a type. Larger types are most likely adversarial, and every operation
// on them takes time.
const MaxSize = 1000

// maxSteps bounds the work on types that may be large. A type can have many parts and a short
// definition, since it can contain the same part twice.
const maxSteps = 20_000

// Unify makes two types equal by binding their Vars. It reports whether that is possible. If it is
// not, some Vars may be bound nevertheless. Invalid and Never fit everything.
func Unify(a, b *Type) bool {
	u := unifier{left: maxSteps}
	return u.unify(a, b)
}

type unifier struct{ left int }

func (u *unifier) unify(a, b *Type) bool {
	a, b = a.Resolve(), b.Resolve()
	if u.left--; u.left < 0 {
		return false
	}
	switch {
	case a == b || a.Kind == Invalid || b.Kind == Invalid:
		return true
	case a.Kind == Var:
		return u.bind(a, b)
	case b.Kind == Var:
		return u.bind(b, a)
	case a.Kind == Never || b.Kind == Never:
		return true
	}
	return a.Kind == b.Kind && a.Decl == b.Decl && a.Fails == b.Fails && a.Kind != Param &&
		slices.EqualFunc(a.Elems, b.Elems, u.unify)
}

func (u *unifier) bind(v, t *Type) bool {
	if t.Kind == Never {
		return true // an expression without a value says nothing about v
	}
	if u.occurs(v, t) {
		return false
	}
	v.bound = t
	return true
}

// occurs reports whether v occurs in t, or may occur because t is too large to search.
func (u *unifier) occurs(v, t *Type) bool {
	t = t.Resolve()
	if u.left--; t == v || u.left < 0 {
		return true
	}
	return slices.ContainsFunc(t.Elems, func(e *Type) bool { return u.occurs(v, e) })
}

// Equal reports whether two types are equal. An unknown type is only equal to itself.
func Equal(a, b *Type) bool {
	left := maxSteps
	var equal func(a, b *Type) bool
	equal = func(a, b *Type) bool {
		a, b = a.Resolve(), b.Resolve()
		left--
		return a == b || a.Kind == b.Kind && a.Decl == b.Decl && a.Fails == b.Fails && a.Kind != Var &&
			a.Kind != Param && left >= 0 && slices.EqualFunc(a.Elems, b.Elems, equal)
	}
	return equal(a, b)
}

// TooLarge reports whether a type has more than MaxSize parts.
func TooLarge(t *Type) bool {
	left := MaxSize
	return !t.within(&left)
}

func (t *Type) within(left *int) bool {
	*left--
	return *left >= 0 && !slices.ContainsFunc(t.Resolve().Elems, func(e *Type) bool { return !e.within(left) })
}

// Some reports whether is returns true for a part of a type: the type itself, its elements and
// arguments, or the types of its fields and variants.
func Some(t *Type, is func(*Type) bool) bool {
	s := search{is: is, left: maxSteps}
	return s.in(t)
}

type search struct {
	is   func(*Type) bool
	seen map[*Decl]bool
	left int // steps through elements; declarations are visited once
}

func (s *search) in(t *Type) bool {
	t = t.Resolve()
	if s.is(t) {
		return true
	}
	for _, e := range t.Elems {
		if s.left--; s.left < 0 {
			return false
		}
		if s.in(e) {
			return true
		}
	}
	if t.Kind != Record && t.Kind != Enum || s.seen[t.Decl] {
		return false
	}
	if s.seen == nil {
		s.seen = map[*Decl]bool{}
	}
	s.seen[t.Decl] = true
	return slices.ContainsFunc(t.Decl.Fields, func(f Field) bool { return s.in(f.Type) }) ||
		slices.ContainsFunc(t.Decl.Variants, func(v Variant) bool { return slices.ContainsFunc(v.Payload, s.in) })
}

// Persistable reports whether values of a type can be stored, sent to a model and read again.
// Functions cannot, and neither can handles of agents, which end with the program.
func Persistable(t *Type) bool {
	return !Some(t, func(t *Type) bool { return t.Kind == Func || t.Kind == Agent })
}

// Printable reports whether values of a type can be shown as text. Functions cannot.
func Printable(t *Type) bool {
	return !Some(t, func(t *Type) bool { return t.Kind == Func })
}

// HasZero reports whether a type has a zero value: 0, "", false, an empty list or map. The zero
// value of a record or tuple consists of those of its parts. That of an enum is the first variant
// without a payload (None), else the first whose payload has one.
func HasZero(t *Type) bool {
	z := zeros{within: map[*Decl]bool{}, left: 10_000}
	return z.has(t)
}

// zeros searches for zero values. A type that contains itself has none there. left bounds the work
// on large types.
type zeros struct {
	within map[*Decl]bool
	left   int
}

func (z *zeros) has(t *Type) bool {
	t = t.Resolve()
	if z.left--; z.left < 0 {
		return false
	}
	switch t.Kind {
	case Func, Agent, Param, Never:
		return false
	case Tuple:
		return z.all(t.Elems)
	case Enum:
		if slices.ContainsFunc(t.Decl.Variants, func(v Variant) bool { return len(v.Payload) == 0 }) {
			return true
		}
		fallthrough
	case Record:
		if z.within[t.Decl] {
			return false
		}
		z.within[t.Decl] = true
		defer delete(z.within, t.Decl)
		for i := range t.Decl.Fields {
			if !z.has(t.FieldType(i)) {
				return false
			}
		}
		for i := range t.Decl.Variants {
			if z.all(t.Payload(i)) {
				return true
			}
		}
		return t.Kind == Record
	}
	return true
}

func (z *zeros) all(types []*Type) bool {
	return !slices.ContainsFunc(types, func(t *Type) bool { return !z.has(t) })
}

// Close returns t with every Var resolved, so that it no longer changes. An unknown type becomes
// Unit.
func Close(t *Type) *Type {
	t = t.Resolve()
	if t.Kind == Var {
		t.bound = Of(Unit)
		return t.bound
	}
	if t.closed || len(t.Elems) == 0 {
		return t
	}
	t.closed = true
	for i, e := range t.Elems {
		t.Elems[i] = Close(e)
	}
	return t
}
