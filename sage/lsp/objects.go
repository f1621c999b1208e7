package lsp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

func (v view) location(s source.Span) location {
	return location{URI: v.uri(s.File.Name), Range: rangeOf(s)}
}

// enclosing returns the nodes around an offset, outermost first.
func enclosing(tree *syntax.File, offset int) []syntax.Node {
	var path []syntax.Node
	syntax.Inspect(tree, func(n syntax.Node) bool {
		s := n.Extent()
		if !s.Valid() || offset < int(s.Start) || offset > int(s.End) {
			return false
		}
		// Between two adjacent nodes, the offset belongs to the second one.
		for len(path) > 0 {
			last := path[len(path)-1].Extent()
			if last.Start <= s.Start && s.End <= last.End {
				break
			}
			path = path[:len(path)-1]
		}
		path = append(path, n)
		return true
	})
	return path
}

// object returns the name at the target and the object that it refers to, nil if there is none or a
// is nil.
func (a *target) object() (name *syntax.Ident, object *check.Object) {
	if a == nil {
		return nil, nil
	}
	syntax.Inspect(a.module.Tree, func(n syntax.Node) bool {
		s := n.Extent()
		if !s.Valid() || a.offset < int(s.Start) || a.offset > int(s.End) {
			return false
		}
		if id, ok := n.(*syntax.Ident); ok {
			if o := objectOf(a.analysis.info, id); o != nil {
				name, object = id, o
			}
		}
		return true
	})
	return name, object
}

func objectOf(info *check.Info, id *syntax.Ident) *check.Object {
	if o := info.Uses[id]; o != nil {
		return o
	}
	return info.Defs[id]
}

// key identifies an object across programs.
func key(o *check.Object) string {
	if o.Span.Valid() {
		return fmt.Sprintf("%s:%d", o.Span.File.Name, o.Span.Start)
	}
	if o.Of != nil {
		return "module " + o.Of.File.Name
	}
	k := fmt.Sprintf("%d %s", o.Kind, o.Name)
	if o.Parent != nil {
		k += " of " + key(o.Parent)
	}
	if o.Tool != nil {
		k += " of " + o.Tool.Name
	}
	return k
}

// occurrences returns the places where programs name an object, in source order without duplicates.
// declaration tells whether to include its declaration.
func occurrences(programs []*analysis, object *check.Object, declaration bool) []source.Span {
	want := key(object)
	type place struct {
		file  string
		start int32
	}
	seen := map[place]source.Span{}
	for _, a := range programs {
		if a.info == nil {
			continue
		}
		note := func(id *syntax.Ident, o *check.Object) {
			if o != nil && id.Valid() && o.Name == object.Name && key(o) == want {
				seen[place{id.File.Name, id.Start}] = id.Span
			}
		}
		for id, o := range a.info.Uses {
			note(id, o)
		}
		for id, o := range a.info.Defs {
			if declaration {
				note(id, o)
			}
		}
		if declaration {
			continue
		}
		// A declaration may be recorded as a use as well.
		for id, o := range a.info.Defs {
			if key(o) == want {
				delete(seen, place{id.File.Name, id.Start})
			}
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b source.Span) int {
		return cmp.Or(cmp.Compare(a.File.Name, b.File.Name), cmp.Compare(a.Start, b.Start))
	})
}
