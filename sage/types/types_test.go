package types_test

import (
	"testing"

	"github.com/coppice-dev/coppice/sage/types"
)

var (
	integer = types.Of(types.Int)
	text    = types.Of(types.String)
)

func option(t *types.Type) *types.Type {
	p := types.NewParam("T")
	d := &types.Decl{Name: "Option", Params: []*types.Type{p}, Variants: []types.Variant{{Name: "Some", Payload: []*types.Type{p}}, {Name: "None"}}}
	return types.Declared(types.Enum, d, []*types.Type{t})
}

func TestUnify(t *testing.T) {
	v, w := types.NewVar(), types.NewVar()
	f := types.FuncOf([]*types.Type{v, types.ListOf(w)}, v, false)
	g := types.FuncOf([]*types.Type{integer, types.ListOf(text)}, types.NewVar(), false)
	if !types.Unify(f, g) || f.String() != "Fn(Int, List<String>) -> Int" || !types.Equal(f, g) {
		t.Errorf("%s, %s", f, g)
	}
	a := types.NewVar()
	if types.Unify(a, types.ListOf(a)) {
		t.Error("a list of itself")
	}
	if types.Unify(integer, text) || types.Unify(types.ListOf(integer), types.ListOf(text)) || types.Unify(types.NewParam("T"), types.NewParam("T")) {
		t.Error("different types are the same")
	}
	for _, k := range []types.Kind{types.Invalid, types.Never} {
		v := types.NewVar()
		if !types.Unify(types.Of(k), text) || !types.Unify(integer, types.Of(k)) || !types.Unify(v, types.Of(types.Never)) || v.Resolve().Kind != types.Var {
			t.Error("Invalid and Never fit everything, and tell nothing")
		}
	}
	if types.Unify(types.FuncOf(nil, integer, true), types.FuncOf(nil, integer, false)) {
		t.Error("what can fail is not what cannot")
	}
}

// A long chain of type variables is followed only once.
func TestLongRow(t *testing.T) {
	first := types.NewVar()
	last := first
	for range 1_000_000 {
		next := types.NewVar()
		types.Unify(last, next)
		last = next
	}
	types.Unify(last, integer)
	if first.Resolve() != integer {
		t.Error(first)
	}
}

func TestProperties(t *testing.T) {
	fn := types.FuncOf(nil, integer, false)
	agent := types.AgentOf(&types.Decl{Name: "A"})
	tree := &types.Decl{Name: "Tree"}
	treeType := types.Declared(types.Enum, tree, nil)
	tree.Variants = []types.Variant{{Name: "Node", Payload: []*types.Type{treeType, treeType}}, {Name: "Leaf", Payload: []*types.Type{integer}}}
	endless := &types.Decl{Name: "Endless"}
	endlessType := types.Declared(types.Record, endless, nil)
	endless.Fields = []types.Field{{Name: "next", Type: endlessType}}
	for _, c := range []struct {
		t                     *types.Type
		kept, printable, zero bool
		text                  string
	}{
		{integer, true, true, true, "Int"},
		{types.MapOf(text, types.ListOf(integer)), true, true, true, "Map<String, List<Int>>"},
		{types.TupleOf([]*types.Type{integer, text}), true, true, true, "(Int, String)"},
		{types.TupleOf(nil), true, true, true, "Unit"},
		{fn, false, false, false, "Fn() -> Int"},
		{types.ListOf(fn), false, false, true, "List<Fn() -> Int>"},
		{agent, false, true, false, "Agent<A>"},
		{option(agent), false, true, true, "Option<Agent<A>>"},
		{option(fn), false, false, true, "Option<Fn() -> Int>"},
		{treeType, true, true, true, "Tree"},
		{endlessType, true, true, false, "Endless"},
		{types.FuncOf([]*types.Type{integer}, text, true), false, false, false, "Fn(Int) -> String fails"},
	} {
		if types.Persistable(c.t) != c.kept || types.Printable(c.t) != c.printable || types.HasZero(c.t) != c.zero || c.t.String() != c.text {
			t.Errorf("%s: kept %v, printable %v, zero %v", c.t, types.Persistable(c.t), types.Printable(c.t), types.HasZero(c.t))
		}
	}
}

func TestLarge(t *testing.T) {
	large := integer
	for range 100 {
		large = types.TupleOf([]*types.Type{large, large})
	}
	if !types.TooLarge(large) || types.TooLarge(option(integer)) {
		t.Error("what is too large")
	}
	if s := large.String(); len(s) > 1000 {
		t.Errorf("%d bytes", len(s))
	}
	v := types.NewVar()
	list := types.ListOf(v)
	if types.Close(list) != list || list.String() != "List<Unit>" {
		t.Error(list)
	}
	if got := types.Subst(types.ListOf(types.Of(types.Int)), nil, nil); got.String() != "List<Int>" {
		t.Error(got)
	}
}

// TestCloseSubst checks that an instance of a closed type is not closed, since its arguments may be
// unknown.
func TestCloseSubst(t *testing.T) {
	param := types.NewParam("T")
	generic := types.Close(types.FuncOf([]*types.Type{types.ListOf(param)}, param, false))
	arg := types.NewVar()
	instance := types.Subst(generic, []*types.Type{param}, []*types.Type{arg})
	types.Unify(arg, types.Of(types.Int))
	instance = types.Close(instance)
	for _, part := range []*types.Type{instance.Result(), instance.Params()[0].Elems[0]} {
		if part.Kind != types.Int {
			t.Errorf("a part of %v is still a variable", instance)
		}
	}
}
