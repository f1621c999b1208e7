package token

import (
	"errors"
	"testing"
)

// A token is that of one incarnation, until that ends or has a successor.
func TestRegistry(t *testing.T) {
	r := New()
	first, second := Caller{Path: "t/a", Incarnation: 1}, Caller{Path: "t/a", Incarnation: 2}
	check := func(token string, who Caller, want error) {
		t.Helper()
		if got, err := r.Caller(token); got != who || !errors.Is(err, want) {
			t.Errorf("%v, %v, want %v, %v", got, err, who, want)
		}
	}
	old := r.Issue(first)
	check(old, first, nil)
	latest := r.Issue(second)
	check(old, Caller{}, ErrStale)
	r.Revoke(first) // late
	check(latest, second, nil)
	r.Revoke(second)
	check(latest, Caller{}, ErrStale)

	r.Expect("t/b")
	check("unknown", Caller{}, ErrPending)
	check(old, Caller{}, ErrStale)
	b := Caller{Path: "t/b", Incarnation: 7}
	if !r.Pending("t/b") {
		t.Error("t/b is not pending")
	}
	r.Restore(b, "known")
	check("known", b, nil)
	check("unknown", Caller{}, ErrStale)
	r.Restore(b, "known") // once more
	check("known", b, nil)
	if r.Pending("t/b") {
		t.Error("t/b is pending")
	}
}

// The registry forgets the oldest revoked tokens.
func TestRevokedTokensAreBounded(t *testing.T) {
	r := New()
	for n := range uint64(2 * maxRevoked) {
		r.Issue(Caller{Path: "t/a", Incarnation: n + 1})
	}
	if len(r.revoked) != maxRevoked || len(r.oldest) != maxRevoked {
		t.Errorf("%d revoked tokens, %d in order, want %d", len(r.revoked), len(r.oldest), maxRevoked)
	}
}
