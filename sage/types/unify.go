package types

import "slices"

// MaxSize bounds the parts of a type. What is larger is most likely made
// to be, and takes as long as it is large wherever it is looked at.
const MaxSize = 1000

// maxSteps bounds the work on types that are not known to be large: one can be
// written in few parts and have many, since a part can be in it twice.
const maxSteps = 20_000

// Unify makes two types the same by making their Vars known. It reports whether
// that is possible; where it is not, some of them may be known all the same.
// Invalid and Never fit everything.
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
	case a == b:
		return true
	case a.Kind == Invalid || b.Kind == Invalid:
		return true
	case a.Kind == Var:
		return u.bind(a, b)
	case b.Kind == Var:
		return u.bind(b, a)
	case a.Kind == Never || b.Kind == Never:
		return true
	case a.Kind != b.Kind || a.Decl != b.Decl || a.Fails != b.Fails || len(a.Elems) != len(b.Elems):
		return false
	case a.Kind == Param:
		return false
	}
	for i := range a.Elems {
		if !u.unify(a.Elems[i], b.Elems[i]) {
			return false
		}
	}
	return true
}

func (u *unifier) bind(v, t *Type) bool {
	if t.Kind == Never {
		return true // nothing is learned from what has no value
	}
	if u.occurs(v, t) {
		return false
	}
	v.bound = t
	return true
}

// occurs reports whether v is in t, or may be in what is too large to tell.
func (u *unifier) occurs(v, t *Type) bool {
	t = t.Resolve()
	if u.left--; t == v || u.left < 0 {
		return true
	}
	for _, e := range t.Elems {
		if u.occurs(v, e) {
			return true
		}
	}
	return false
}

// Equal reports whether two types are the same as far as they are known.
func Equal(a, b *Type) bool {
	left := maxSteps
	return equal(a, b, &left)
}

func equal(a, b *Type, left *int) bool {
	a, b = a.Resolve(), b.Resolve()
	if *left--; a == b {
		return true
	}
	if a.Kind != b.Kind || a.Decl != b.Decl || a.Fails != b.Fails || len(a.Elems) != len(b.Elems) || a.Kind == Var ||
		a.Kind == Param || *left < 0 {
		return false
	}
	for i := range a.Elems {
		if !equal(a.Elems[i], b.Elems[i], left) {
			return false
		}
	}
	return true
}

// TooLarge reports whether a type has more than MaxSize parts.
func TooLarge(t *Type) bool {
	left := MaxSize
	return !t.within(&left)
}

func (t *Type) within(left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	for _, e := range t.Resolve().Elems {
		if !e.within(left) {
			return false
		}
	}
	return true
}

// Some reports whether a type has a part of which is is true: itself, its
// elements and arguments, what its fields and variants are and so on.
func Some(t *Type, is func(*Type) bool) bool {
	s := search{is: is, left: maxSteps}
	return s.in(t)
}

type search struct {
	is   func(*Type) bool
	seen map[*Decl]bool
	left int // steps through elements; declarations are seen once each
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
	for _, f := range t.Decl.Fields {
		if s.in(f.Type) {
			return true
		}
	}
	for _, v := range t.Decl.Variants {
		for _, p := range v.Payload {
			if s.in(p) {
				return true
			}
		}
	}
	return false
}

// Persistable reports whether values of a type can be kept, sent to a model
// and read again: all but functions, and the handles of agents, which are over
// when the program is.
func Persistable(t *Type) bool {
	return !Some(t, func(t *Type) bool { return t.Kind == Func || t.Kind == Agent })
}

// Printable reports whether values of a type can be shown as text: all but functions.
func Printable(t *Type) bool {
	return !Some(t, func(t *Type) bool { return t.Kind == Func })
}

// HasZero reports whether a type has a zero value: 0, "", false, an empty list
// or map; of records and tuples that of their parts; of an enum the first
// variant that carries nothing (None), else the first whose parts have one.
func HasZero(t *Type) bool {
	z := zeros{within: map[*Decl]bool{}, left: 10_000}
	return z.has(t)
}

// zeros looks for zero values. A type within itself has none there; left bounds
// the work on types that are made to be large.
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
		for _, e := range t.Elems {
			if !z.has(e) {
				return false
			}
		}
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
	case Enum:
		return z.enum(t)
	}
	return true
}

func (z *zeros) enum(t *Type) bool {
	if slices.ContainsFunc(t.Decl.Variants, func(v Variant) bool { return len(v.Payload) == 0 }) {
		return true
	}
	if z.within[t.Decl] {
		return false
	}
	z.within[t.Decl] = true
	defer delete(z.within, t.Decl)
	for i := range t.Decl.Variants {
		if !slices.ContainsFunc(t.Payload(i), func(p *Type) bool { return !z.has(p) }) {
			return true
		}
	}
	return false
}

// Close returns t without any Var in it, so that it no longer changes: what is
// not known becomes Unit.
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
