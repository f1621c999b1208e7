package syntax

import (
	"reflect"

	"github.com/coppice-dev/coppice/sage/source"
)

// Inspect walks a tree in source order. It calls visit for each node, and visits the children of a
// node if visit returns true for it.
func Inspect(n Node, visit func(Node) bool) {
	if visit(n) {
		VisitChildren(n, func(child Node) { Inspect(child, visit) })
	}
}

// VisitChildren calls visit for the direct children of n in source order. It relies on the order of
// the fields of nodes, which is that of the source.
func VisitChildren(n Node, visit func(Node)) {
	visitFields(reflect.ValueOf(n).Elem(), visit)
}

func visitFields(v reflect.Value, visit func(Node)) {
	if v.Type() == spanType {
		return
	}
	for i := range v.NumField() {
		visitValue(v.Field(i), visit)
	}
}

// visitValue visits the nodes in a field or an element of a slice.
func visitValue(v reflect.Value, visit func(Node)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			visit(v.Interface().(Node))
		}
	case reflect.Slice:
		for i := range v.Len() {
			visitValue(v.Index(i), visit)
		}
	case reflect.Struct:
		visitFields(v, visit)
	}
}

var (
	spanType     = reflect.TypeFor[source.Span]()
	commentsType = reflect.TypeFor[[]Comment]()
)

// Same reports whether two trees are equal, ignoring positions and comments.
func Same(a, b Node) bool {
	return same(reflect.ValueOf(&a), reflect.ValueOf(&b))
}

func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		a, b = a.Elem(), b.Elem()
		return a.Type() == b.Type() && same(a, b)
	case reflect.Slice:
		if a.Type() == commentsType {
			return true
		}
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if a.Type() == spanType {
			return true
		}
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}
