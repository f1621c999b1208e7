package check

import (
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// shape is the set of values that a pattern matches: all values (a nil *shape), or those of one
// constructor whose parts match parts. A constructor is a variant, true or false, a tuple, or a
// literal.
type shape struct {
	index   int    // of a variant; 0 or 1 for a bool; 0 for a tuple
	literal string // of a number or a string
	parts   []*shape
}

// constructor identifies how a value is made.
type constructor struct {
	index   int
	literal string
}

func (s *shape) constructor() constructor { return constructor{s.index, s.literal} }

// matrix searches for values that no row of patterns matches. The number of steps is bounded
// because it can be exponential.
type matrix struct{ steps int }

const maxMatchSteps = 200_000

// covers reports unreachable arms and values without an arm.
func (c *checker) covers(x *syntax.MatchExpr, t *types.Type) {
	m := &matrix{steps: maxMatchSteps}
	var rows [][]*shape
	of := []*types.Type{t}
	byConstructor := map[constructor][][]*shape{} // rows that start with a constructor or match everything
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

// constantPattern reports whether a pattern contains a constant, whose value is not considered.
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

// constructorCount returns the number of constructors of a type, 0 if there are too many to list.
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

// partsOf returns the types of the parts of a constructor.
func partsOf(t *types.Type, index int) []*types.Type {
	switch t.Kind {
	case types.Enum:
		return t.Payload(index)
	case types.Tuple:
		return t.Elems
	}
	return nil
}

// missing returns values that row matches and none of the rows does, one for each type.
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
	var rest [][]*shape // rows that match everything
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
		// Some constructor is not named by any row.
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
		// The order of rows does not matter here.
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

// specialize calls missing for values whose first one has a constructor.
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

// witness is an unmatched value, in the form of a pattern.
type witness struct {
	text  string // "" for any
	parts []witness
	tuple bool
}

// anyValue returns any value of a constructor.
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
