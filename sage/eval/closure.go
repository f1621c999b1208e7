package eval

// cell is a variable that several functions share: closures and the function around them.
type cell struct{ v Value }

// closure is a function value.
type closure struct {
	fn       *function
	captured []Value // values, or cells in ref
}

// function is the code of a function, closure or handler.
type function struct {
	name    string
	params  int
	slots   int
	result  scalar // kind of the result; 0 if it is not a scalar
	cells   []int  // parameters that are cells
	unwinds bool   // a return or yield is inside of an expression
	body    func(f *frame) outcome
}

// outcome tells how a statement ended.
type outcome uint8

const (
	normal outcome = iota
	breaking
	continuing
	returning // the value is in frame.ret
	yielding  // the value is in frame.ret
)

// call calls a function value from a native.
func (m *machine) call(f Value, args ...Value) Value {
	c, from, at := f.ref.(*closure), m.top, m.here
	to := m.enter(from, c.fn.slots, at)
	copy(to.s, args)
	ret := m.run(c, to)
	m.top, m.here = from, at
	return ret
}

// run runs a closure in its frame, whose first variables hold the arguments.
func (m *machine) run(c *closure, f *frame) Value {
	f.fn = c
	c.fn.run(f)
	ret := f.ret
	if c.fn.result != 0 {
		ret.ref = c.fn.result
	}
	f.ret, f.fn = Value{}, nil
	m.exit(f)
	return ret
}

// run runs the body in a frame whose first variables hold the arguments.
func (fn *function) run(f *frame) outcome {
	for _, i := range fn.cells {
		f.s[i] = Value{ref: &cell{f.s[i]}}
	}
	if fn.unwinds {
		return shield(f, fn.body, returning, yielding)
	}
	return fn.body(f)
}

// shield runs statements that may be left from inside of an expression and returns how they ended.
// Outcomes outside of first to last belong to an outer statement and are thrown again.
func shield(f *frame, body stmt, first, last outcome) (how outcome) {
	v := f.m.guard(f, func() { how = body(f) })
	if v == nil {
		return how
	}
	l, is := v.(*leave)
	if !is || l.frame != f || l.how < first || l.how > last {
		panic(v)
	}
	return l.how
}
