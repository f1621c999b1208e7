package lazyregexp

import "testing"

func TestNew(t *testing.T) {
	invalid := New("(") // not compiled
	word := New(`^[a-z]+$`)
	if !word().MatchString("coppice") || word().MatchString("1") {
		t.Error("the expression does not match as written")
	}
	if first, second := word(), word(); first != second {
		t.Error("the expression is compiled at each call")
	}
	defer func() {
		if recover() == nil {
			t.Error("an invalid expression compiles")
		}
	}()
	invalid()
}
