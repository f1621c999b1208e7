package spanid

import (
	"strings"
	"testing"
)

// The IDs of a span never change: another version of the daemon finishes what this one has begun.
func TestGolden(t *testing.T) {
	incarnation := Incarnation("n", "shop/api", 7)
	for _, c := range []struct {
		id   ID
		want string
	}{
		{incarnation, "00-1d249fab62384805ac9efc0e5c151ea6-1b8ab9642806262b-01"},
		{incarnation.Attempt("T-1", 2), "00-1d249fab62384805ac9efc0e5c151ea6-ab9c956b61c0aac7-01"},
		{OwnAttempt("n", "T-1", 2), "00-d571ab613257a6bf3fb8ed6b3a829ea2-1dcf386ea3dda8dd-01"},
		{Order("n", "r-1", 1), "00-5b979999effdab920225995eb391c0ef-f79bfc0e27e461a7-01"},
		{Order("n", "r-1", 3), "00-5b979999effdab920225995eb391c0ef-4551d4963e7b77bd-01"},
	} {
		if got := c.id.Traceparent(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestIDsDiffer(t *testing.T) {
	a := Incarnation("n", "shop/api", 1)
	all := map[ID]bool{}
	for _, id := range []ID{
		a, Incarnation("n", "shop/api", 2), Incarnation("n", "shop/ap", 1), Incarnation("m", "shop/api", 1),
		Incarnation("n", "shop/api1", 1), Incarnation("ns", "hop/api", 1), a.Attempt("1", 11), a.Attempt("11", 1),
		a.Attempt("1", 1), OwnAttempt("n", "1", 1), Order("n", "r-1", 1), Order("n", "r-1", 2), Order("n", "r-1", 3),
	} {
		if all[id] || id.IsZero() {
			t.Errorf("%v is there twice, or zero", id)
		}
		all[id] = true
	}
	if child := a.Attempt("1", 1); child.Trace != a.Trace || child.IsRoot() || !a.IsRoot() {
		t.Errorf("%v below %v", child, a)
	}
	if first, later := Order("n", "r-1", 1), Order("n", "r-1", 2); first.Trace != later.Trace || !first.IsRoot() {
		t.Errorf("%v after %v", later, first)
	}
	if Order("n", "r-1", 0) != Order("n", "r-1", 1) {
		t.Error("an attempt without a number is not the first one")
	}
}

func TestParse(t *testing.T) {
	id := Root("a")
	if got, ok := Parse(id.Traceparent()); !ok || got != id {
		t.Errorf("%v, %v", got, ok)
	}
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	if got, ok := Parse(good); !ok || got.IsRoot() || !strings.HasPrefix(got.Traceparent(), good[:53]) {
		t.Errorf("%v, %v", got, ok)
	}
	for _, bad := range []string{
		"", "00", "00---", good + "-00", "01" + good[2:], strings.ToUpper(good), good[:len(good)-1], good + "0",
		strings.Replace(good, "4bf9", "xbf9", 1), strings.Replace(good, "-00f0", "-+0f0", 1), good[:53] + "zz",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"00-4bf92f3577b34da6a3ce929d0e0e47-3600f067aa0ba902b7-01",
	} {
		if got, ok := Parse(bad); ok || !got.IsZero() {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := Parse(text); ok && id.Traceparent()[:53] != text[:53] {
			t.Errorf("%q is %v", text, id)
		}
	})
}
