package check

import (
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// shape is the set of values that a pattern matches: everything (a nil *shape), or what is made
// in one way of parts that match parts. It is a variant, true or false, a tuple,
// or a literal.
type shape struct {
	index   int    // of the variant; 0 or 1 of a bool; 0 of a tuple
	literal string // of a number or a text
	parts   []*shape
}

// constructor is in which way a value is made.
type constructor struct {
	index   int
	literal string
}

func (s *shape) constructor() constructor { return constructor{s.index, s.literal} }

// matrix looks for values that no row of patterns matches. The number of steps
// is bounded, since it can be exponential in patterns that are made so.
type matrix struct{ steps int }

const maxMatchSteps = 200_000

// covers reports arms that are never reached, and what no arm matches.
func (c *checker) covers(x *syntax.MatchExpr, t *types.Type) {
	m := &matrix{steps: maxMatchSteps}
	var rows [][]*shape
	of := []*types.Type{t}
	byConstructor := map[constructor][][]*shape{} // rows that begin in a way, or match all
	var all [][]*shape
	for _, a := range x.Arms {
		row := []*shape{c.shapeOf(a.Pattern, t)}
		before := all
		if row[0] != nil {
			before = byConstructor[row[0].constructor()]
			if before == nil {
				before = all
			}
		} else if len(all) == 0 {
			before = rows
		}
		if _, ok := m.missing(before, row, of); !ok && m.steps > 0 {
			c.warn(a.Pattern, CodeUnreachable, "remove it, or move it before the arm that matches the same",
				"this arm is never reached: those before it match all that it does")
			continue
		}
		if a.Guard != nil || c.constantPattern(a.Pattern) {
			continue
		}
		rows = append(rows, row)
		if row[0] == nil {
			all = append(all, row)
			for w, r := range byConstructor {
				byConstructor[w] = append(r, row)
			}
		} else {
			w := row[0].constructor()
			if byConstructor[w] == nil {
				byConstructor[w] = append([][]*shape{}, all...)
			}
			byConstructor[w] = append(byConstructor[w], row)
		}
	}
	if len(all) > 0 {
		return
	}
	m.steps = maxMatchSteps
	witness, ok := m.missing(rows, []*shape{nil}, of)
	switch {
	case m.steps <= 0:
		c.fault(x.X, CodeExhaustive, "end it with an arm _ => …",
			"this match is too complicated to find out whether it covers all")
	case ok:
		what := witness[0].String()
		help := "add an arm for it, or one for all that is left: _ => …"
		if len(x.Arms) == 0 {
			help = "write arms in the braces: pattern => value"
		}
		c.fault(x.X, CodeExhaustive, help, "`%s` is not covered by any arm", what)
	}
}

// irrefutable reports a pattern that does not match all values of a type.
func (c *checker) irrefutable(p syntax.Pattern, t *types.Type, where string) {
	switch p.(type) {
	case *syntax.BindPat, *syntax.WildcardPat:
		return
	}
	if t.Resolve().Kind == types.Invalid {
		return
	}
	m := &matrix{steps: maxMatchSteps}
	witness, ok := m.missing([][]*shape{{c.shapeOf(p, t)}}, []*shape{nil}, []*types.Type{t})
	if ok {
		c.fault(p, CodeRefutable, "take it apart with match",
			"the pattern of %s has to match all, and does not match `%s`", where, witness[0].String())
	}
}

// constantPattern reports whether a constant is in a pattern: what it is equal
// to is not looked at.
func (c *checker) constantPattern(p syntax.Pattern) (found bool) {
	syntax.Inspect(p, func(n syntax.Node) bool {
		if v, ok := n.(*syntax.VariantPat); ok {
			if o := c.info.Uses[v.Name.Last()]; o != nil && o.Kind == Const {
				found = true
			}
		}
		return !found
	})
	return found
}

// shapeOf returns the shape of a pattern for values of type t.
func (c *checker) shapeOf(p syntax.Pattern, t *types.Type) *shape {
	switch p := p.(type) {
	case *syntax.LiteralPat:
		switch v := p.Value.(type) {
		case *syntax.BoolLit:
			if v.Value {
				return &shape{index: 1}
			}
			return &shape{}
		case *syntax.IntLit:
			return &shape{literal: strconv.FormatInt(v.Value, 10)}
		case *syntax.FloatLit:
			return &shape{literal: strconv.FormatFloat(v.Value, 'g', -1, 64)}
		case *syntax.StringLit:
			return &shape{literal: strconv.Quote(v.Value)}
		}
	case *syntax.TuplePat:
		t = t.Resolve()
		s := &shape{}
		for i, e := range p.Elems {
			s.parts = append(s.parts, c.shapeOf(e, t.Elems[i]))
		}
		return s
	case *syntax.VariantPat:
		o := c.info.Uses[p.Name.Last()]
		if o == nil || o.Kind != VariantName {
			return &shape{literal: p.Name.String()}
		}
		s := &shape{index: o.Index}
		payload := t.Resolve().Payload(o.Index)
		for i, a := range p.Args {
			s.parts = append(s.parts, c.shapeOf(a, payload[i]))
		}
		return s
	}
	return nil
}

// constructorCount is in how many ways values of a type are made; 0 if there are too many
// to name them.
func constructorCount(t *types.Type) int {
	switch t.Kind {
	case types.Bool:
		return 2
	case types.Enum:
		return len(t.Decl.Variants)
	case types.Tuple, types.Unit:
		return 1
	}
	return 0
}

// partsOf are the types of what a value that is made in a way consists of.
func partsOf(t *types.Type, index int) []*types.Type {
	switch t.Kind {
	case types.Enum:
		return t.Payload(index)
	case types.Tuple:
		return t.Elems
	}
	return nil
}

// missing finds values that row matches and none of the rows does: one for each
// type.
func (m *matrix) missing(rows [][]*shape, row []*shape, of []*types.Type) (found []witness, ok bool) {
	if m.steps -= 1 + len(rows); m.steps <= 0 {
		return nil, false
	}
	if len(of) == 0 {
		return nil, len(rows) == 0
	}
	t := of[0].Resolve()
	if row[0] != nil {
		return m.specialize(rows, row, of, row[0].constructor())
	}
	seen := map[constructor][][]*shape{}
	var order []constructor
	var rest [][]*shape // those that match all
	for _, r := range rows {
		if r[0] == nil {
			rest = append(rest, r)
			continue
		}
		w := r[0].constructor()
		if seen[w] == nil {
			order = append(order, w)
		}
		seen[w] = append(seen[w], r)
	}
	n := constructorCount(t)
	if n == 0 || len(order) < n {
		// In some way values are made that no row names.
		without := make([][]*shape, len(rest))
		for i, r := range rest {
			without[i] = r[1:]
		}
		tail, ok := m.missing(without, row[1:], of[1:])
		if !ok {
			return nil, false
		}
		head := witness{}
		for i := range n {
			if seen[constructor{index: i}] == nil && len(order) > 0 {
				head = anyValue(t, i)
				break
			}
		}
		return append([]witness{head}, tail...), true
	}
	for i := range n {
		w := constructor{index: i}
		// The rows in their order do not matter for what is missing.
		group := append(append([][]*shape{}, seen[w]...), rest...)
		made := append([]*shape{{index: i, parts: make([]*shape, len(partsOf(t, i)))}}, row[1:]...)
		if found, ok := m.specialize(group, made, of, w); ok {
			return found, true
		}
		if m.steps <= 0 {
			break
		}
	}
	return nil, false
}

// specialize is missing for values whose first is made in a way.
func (m *matrix) specialize(rows [][]*shape, row []*shape, of []*types.Type, w constructor) ([]witness, bool) {
	t := of[0].Resolve()
	var parts []*types.Type
	if w.literal == "" {
		parts = partsOf(t, w.index)
	}
	width := len(parts) + len(of) - 1
	expand := func(r []*shape) []*shape {
		wide := make([]*shape, 0, width)
		if r[0] != nil {
			wide = append(wide, r[0].parts...)
		}
		for len(wide) < len(parts) {
			wide = append(wide, nil)
		}
		return append(wide, r[1:]...)
	}
	var inner [][]*shape
	for _, r := range rows {
		if r[0] == nil || r[0].constructor() == w {
			inner = append(inner, expand(r))
		}
	}
	m.steps -= len(rows) * max(1, width/4)
	found, ok := m.missing(inner, expand(row), append(append(make([]*types.Type, 0, width), parts...), of[1:]...))
	if !ok {
		return nil, false
	}
	head := anyValue(t, w.index)
	if w.literal != "" {
		head = witness{text: w.literal}
	}
	head.parts = found[:len(parts)]
	return append([]witness{head}, found[len(parts):]...), true
}

// witness is a value that is not matched, as a pattern.
type witness struct {
	text  string // "" for any
	parts []witness
	tuple bool
}

// anyValue is any value that is made in a way.
func anyValue(t *types.Type, index int) witness {
	switch t.Kind {
	case types.Enum:
		return witness{text: t.Decl.Variants[index].Name, parts: make([]witness, len(t.Decl.Variants[index].Payload))}
	case types.Bool:
		return witness{text: strconv.FormatBool(index == 1)}
	case types.Tuple:
		return witness{tuple: true, parts: make([]witness, len(t.Elems))}
	case types.Unit:
		return witness{tuple: true}
	}
	return witness{}
}

func (w witness) String() string {
	var b strings.Builder
	w.write(&b)
	return b.String()
}

func (w witness) write(b *strings.Builder) {
	if b.Len() > 200 {
		b.WriteString("…")
		return
	}
	b.WriteString(w.text)
	if w.text == "" && !w.tuple {
		b.WriteString("_")
		return
	}
	if len(w.parts) == 0 && !w.tuple {
		return
	}
	b.WriteString("(")
	for i, p := range w.parts {
		if i > 0 {
			b.WriteString(", ")
		}
		p.write(b)
	}
	b.WriteString(")")
}
