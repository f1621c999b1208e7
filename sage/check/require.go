package check

import (
	"strconv"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

func itoa(n int) string { return strconv.Itoa(n) }

// reason tells why a type is expected.
type reason struct {
	what     string // such as "is the type of a condition"
	function string // for a parameter: such as "`f`"
	arg      int    // number of the parameter from 1; 0 if it is none
	help     string
}

const conditionHelp = "compare it with something, such as x != 0"

func (w reason) String() string {
	if w.arg > 0 {
		return "is the type of the " + ordinal(w.arg) + " parameter of " + w.function
	}
	return w.what
}

func ordinal(n int) string {
	words := [...]string{"", "first", "second", "third", "fourth", "fifth", "sixth", "seventh"}
	if n < len(words) {
		return words[n]
	}
	return itoa(n) + "th"
}

// expect checks an expression that must have a type.
func (c *checker) expect(x syntax.Expr, want *types.Type, w reason) *types.Type {
	got := c.expr(x, want)
	c.fits(x, got, want, w)
	return got
}

// fits reports a type that differs from the expected one.
func (c *checker) fits(at syntax.Node, got, want *types.Type, w reason) bool {
	if types.Unify(got, want) {
		return true
	}
	help := w.help
	if h := c.remedy(got.Resolve(), want.Resolve()); h != "" {
		help = h
	}
	c.fault(at, CodeType, help, "expected `%s`, found `%s`: `%s` %s", want, got, want, w)
	return false
}

// fitsAll reports whether a type fits every other type.
func fitsAll(t *types.Type) bool {
	k := t.Resolve().Kind
	return k == types.Invalid || k == types.Never
}

// remedy returns how to convert one type to another, "" if there is no way.
func (c *checker) remedy(got, want *types.Type) string {
	switch {
	case got.Decl == c.universe.option && types.Unify(got.Elems[0], want):
		return "take the value out with unwrap_or(…, other), or with match"
	case got.Decl == c.universe.result && types.Unify(got.Elems[0], want):
		return "take the value out with try, with catch, or with match"
	case got.Kind == types.Agent && got.Decl.Output != nil && got.Decl.Output.Resolve().Kind == want.Kind:
		return "wait for what the agent yields: try await …"
	case want.Decl == c.universe.option && types.Unify(got, want.Elems[0]):
		return "write Some(…) around it"
	case want.Decl == c.universe.result && types.Unify(got, want.Elems[0]):
		return "write Ok(…) around it"
	case want.Kind == types.String && types.Printable(got):
		return "write str(…) around it, or put it into a string: \"{…}\""
	case want.Kind == types.Float && got.Kind == types.Int:
		return "write a number with a point, such as 1.0, or int_to_float(…)"
	case want.Kind == types.Int && got.Kind == types.Float:
		return "write round(…), floor(…) or float_to_int(…) around it"
	case want.Kind == types.Int && got.Kind == types.String:
		return "write try parse_int(…) around it"
	case want.Kind == types.Float && got.Kind == types.String:
		return "write try parse_float(…) around it"
	case want.Kind == types.Func && got.Kind == types.Func && got.Fails && !want.Fails:
		return "say in the function what happens when it fails: … catch { … }"
	case want.Kind == types.Unit && got.Kind != types.Unit:
		return "nothing is expected here: write ; after it"
	}
	return ""
}

// unknown reports a type that must be known here.
func (c *checker) unknown(at syntax.Node, help string) *types.Type {
	if help == "" {
		help = "write it where the value comes from: let x: List<Int> = …, or |x: Int| …"
	}
	return c.invalid(at, CodeUnknownType, help, "the type of this is not known here")
}

// demand is a requirement of an operation on the type of its operand.
type demand uint8

const (
	numeric     demand = iota // Int or Float
	ordered                   // Int, Float or String
	comparable                // no functions
	joined                    // String or List
	printable                 // no functions
	persistable               // no functions and no agents
	key                       // the key of a map
)

// pending is a demand on a type that was unknown at that time.
type pending struct {
	demand demand
	op     syntax.Kind
	t      *types.Type
	at     syntax.Node
}

// require checks a demand on a type as soon as the type is known.
func (c *checker) require(d demand, t *types.Type, at syntax.Node, op syntax.Kind) {
	t = t.Resolve()
	switch t.Kind {
	case types.Int, types.String, types.Bool, types.Invalid, types.Never, types.Float:
		c.checkDemand(pending{d, op, t, at})
	default:
		c.current.env.pending = append(c.current.env.pending, pending{d, op, t, at})
	}
}

// resolvePending checks the demands on types that are known now. A type that is still unknown gets
// a default.
func (c *checker) resolvePending(e *env) {
	for _, p := range e.pending {
		if p.t.Resolve().Kind == types.Var {
			switch p.demand {
			case numeric, ordered:
				types.Unify(p.t, types.Of(types.Int))
			case joined:
				types.Unify(p.t, types.Of(types.String))
			}
		}
		c.checkDemand(p)
	}
	e.pending = nil
}

func (c *checker) checkDemand(p pending) {
	t := p.t.Resolve()
	if t.Kind == types.Invalid || t.Kind == types.Never || t.Kind == types.Var {
		return
	}
	switch p.demand {
	case numeric:
		if t.Kind == types.Int || t.Kind == types.Float {
			return
		}
		help := c.remedy(t, types.Of(types.Int))
		switch {
		case p.op == syntax.Add && t.Kind == types.String:
			help = "write ++ to join strings"
		case p.op == syntax.Add && t.Kind == types.List:
			help = "write ++ to join lists, push(xs, x) for one element"
		}
		c.fault(p.at, CodeOperator, help, "`%s` is for Int and Float, and this is `%s`", p.op, t)
	case ordered:
		if t.Kind == types.Int || t.Kind == types.Float || t.Kind == types.String {
			return
		}
		c.fault(p.at, CodeOperator, c.remedy(t, types.Of(types.Int)),
			"`%s` is for Int, Float and String, and this is `%s`", p.op, t)
	case joined:
		if t.Kind != types.String && t.Kind != types.List {
			c.fault(p.at, CodeOperator, c.remedy(t, types.Of(types.String)),
				"`++` joins strings or lists, and this is `%s`", t)
		}
	case comparable:
		if !types.Printable(t) {
			c.fault(p.at, CodeOperator, "", "functions cannot be compared, and this is `%s`", t)
		}
	case printable:
		if !types.Printable(t) {
			c.fault(p.at, CodeType, "call it, and use what it returns",
				"functions cannot be shown as text, and this is `%s`", t)
		}
	case persistable:
		if !types.Persistable(t) {
			c.fault(p.at, CodeType, "", "functions and agents cannot be made of text, and this is `%s`", t)
		}
	case key:
		c.keyType(p.at, t)
	}
}
