package placing_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// An agent whose record is damaged may run anywhere, and is not started until that is mended. All others are.
func TestDamaged(t *testing.T) {
	for name, tt := range map[string]struct{ value, why string }{
		"empty":         {"", "expected a place in JSON"},
		"cut off":       {`{"path":"x","node":"b"`, "expected a place in JSON"},
		"a list":        {"[1]", "expected a place in JSON"},
		"nothing in it": {"{}", `it is that of ""`},
		"of another":    {`{"path":"y","node":"b","epoch":1,"kind":"proc"}`, `it is that of "y"`},
		"no node":       {`{"path":"x","epoch":1,"kind":"proc"}`, "name"},
		"no such name":  {`{"path":"x","node":"b/../c","epoch":1,"kind":"proc"}`, "b/../c"},
		"no lease":      {`{"path":"x","node":"b","kind":"proc"}`, "the lease of the node"},
		"no kind":       {`{"path":"x","node":"b","epoch":1}`, "the kind of the runtime"},
		"before now":    {`{"path":"x","node":"b","epoch":1,"kind":"proc","within":-5}`, "within -5ns"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				defer s.Close()
				write := func(kind store.OpKind, value string) {
					t.Helper()
					op := store.Op{Kind: kind, Key: placing.Prefix + "/x", Value: []byte(value)}
					if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{op}); err != nil {
						t.Fatal(err)
					}
				}
				a, b := newNode(t, s, "a"), newNode(t, s, "b")
				first := lead(t, s, a, b)
				first.wants["x"] = placement.Want{Node: "b"}
				if _, err := first.Start(t.Context(), launch("x", 1)); err != nil {
					t.Fatal(err)
				}
				sound, err := store.Get(t.Context(), s, placing.Prefix+"/x")
				if err != nil {
					t.Fatal(err)
				}
				first.end()
				write(store.Put, tt.value)

				c := lead(t, s, a, b)
				defer c.end()
				refused := func() {
					t.Helper()
					_, err := c.Start(t.Context(), launch("x", 2))
					damaged, ok := errors.AsType[*placing.DamagedError](err)
					if !ok || damaged.Path != "x" || !errors.Is(err, runtime.ErrNoNode) ||
						!strings.Contains(err.Error(), tt.why) ||
						!strings.Contains(err.Error(), "etcdctl del PREFIX/k/cluster/places/x") {
						t.Errorf("%v, want %q", err, tt.why)
					}
					if to, why := c.places.Move("x"); c.places.IsTaken("x") || to != "" || c.places.IsAway("x") {
						t.Errorf("it is taken, or moves to %q: %s", to, why)
					}
				}
				refused()
				refused()
				if !slices.Equal(c.homeless, []string{"x", "x"}) {
					t.Errorf("without a node: %v", c.homeless)
				}
				if _, err := c.Start(t.Context(), launch("z", 1)); err != nil {
					t.Errorf("another agent: %v", err)
				}
				if all, damaged, err := placing.Read(t.Context(), s); len(all) != 1 || len(damaged) != 1 || err != nil {
					t.Errorf("%v, %v, %v", all, damaged, err)
				}

				write(store.Put, string(sound.Value)) // a person brings it back
				if _, err := c.Start(t.Context(), launch("x", 2)); !errors.Is(err, runtime.ErrBusy) {
					t.Errorf("it is started where it runs: %v", err)
				}
				b.end("x", errCrashed)
				if _, err := c.Start(t.Context(), launch("x", 2)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A person ends an agent and removes its damaged record. It starts on any node then.
func TestDamagedRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		a, b := newNode(t, s, "a"), newNode(t, s, "b")
		write := func(op store.Op) {
			t.Helper()
			op.Key = placing.Prefix + "/x"
			if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{op}); err != nil {
				t.Fatal(err)
			}
		}
		write(store.Op{Kind: store.Put, Value: []byte("?")})
		c := lead(t, s, a, b)
		defer c.end()
		if _, err := c.Start(t.Context(), launch("x", 1)); !errors.Is(err, runtime.ErrNoNode) {
			t.Error(err)
		}
		write(store.Op{Kind: store.Delete})
		if _, err := c.Start(t.Context(), launch("x", 1)); err != nil {
			t.Error(err)
		}
		if got := a.alive(); !slices.Equal(got, []string{"x"}) {
			t.Errorf("on a: %v", got)
		}
	})
}
