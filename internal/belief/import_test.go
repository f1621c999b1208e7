package belief

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/value"
)

// dying is a store that fails after a number of writes, as if the process were killed.
type dying struct {
	store.Store
	left *int
}

var errKilled = errors.New("killed")

func (d dying) Apply(ctx context.Context, f store.Fence, c []store.Cond, o []store.Op) (store.Rev, error) {
	if *d.left--; *d.left < 0 {
		return 0, errKilled
	}
	return d.Store.Apply(ctx, f, c, o)
}

// An import is applied as a whole or not at all, even if it takes many steps and the daemon is
// killed between any two of them. It leaves nothing else in the store.
func TestImportIsAtomic(t *testing.T) {
	ctx := context.Background()
	old, new := value.Named{"kept": "0"}, value.Named{"kept": "0"}
	for i := range 130 {
		old[fmt.Sprint("n", i)] = "1"
		new[fmt.Sprint("n", i+10)] = "2"
		new[fmt.Sprint("large", i%3)] = value.Value(`"` + strings.Repeat("x", 400<<10) + `"`)
	}
	for i := range 10 {
		new[fmt.Sprint("n", i)] = "1" // not part of the import
	}
	given := maps.Clone(new)
	for i := range 10 {
		delete(given, fmt.Sprint("n", i))
	}
	before, after := 0, 0
	for writes := 0; ; writes++ {
		s := memory.New()
		if err := open(t, s).Import(ctx, "app/a", old); err != nil {
			t.Fatal(err)
		}
		left := writes
		err := open(t, dying{s, &left}).Import(ctx, "app/a", given)
		b := open(t, s)
		got, _, e := b.Export(ctx, "app/a")
		if e != nil {
			t.Fatal(e)
		}
		switch {
		case maps.Equal(got, new):
			after++
		case maps.Equal(got, old) && err != nil:
			before++
		default:
			t.Fatalf("killed after %d writes (%v): %d values, neither the %d old nor the %d new ones", writes, err, len(got), len(old), len(new))
		}
		if all, _, _ := s.Snapshot(ctx, ""); len(all) != len(got) {
			t.Errorf("killed after %d writes: %d records of %d values", writes, len(all), len(got))
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	if before < 3 || after < 3 {
		t.Errorf("%d times before the decision, %d times after it", before, after)
	}
}

func TestImport(t *testing.T) {
	ctx := context.Background()
	f := storetest.NewFaults(memory.New(), 3, storetest.Rates{Unknown: 0.3, Conflict: 0.3})
	b := open(t, f)
	b.Declare("app/m", monitor)
	if err := b.Import(ctx, "app/m", value.Named{"check_count": "5", "note": `"x"`}); err != nil {
		t.Fatal(err)
	}
	want(t, "not persistent", b.Import(ctx, "app/m", value.Named{"threshold": "5"}), ErrRefused, "not persistent")
	want(t, "unknown", b.Import(ctx, "app/m", value.Named{"zzz": "5"}), ErrNotFound)
	want(t, "type", b.Import(ctx, "app/m", value.Named{"check_count": "6", "note": "5"}), ErrRefused, "type string")
	many := value.Named{}
	for i := range MaxBeliefs + 1 {
		many[fmt.Sprint("n", i)] = "1"
	}
	var limit *value.LimitError
	if err := b.Import(ctx, "app/x", many); !errors.As(err, &limit) || limit.Max != MaxBeliefs {
		t.Errorf("too many: %v", err)
	}
	delete(many, "n0")
	for range 3 { // with store faults
		if err := b.Import(ctx, "app/x", many); err != nil {
			t.Fatal(err)
		}
	}
	got, unreadable, err := b.Export(ctx, "app/x")
	if err != nil || !maps.Equal(got, many) || len(unreadable) > 0 {
		t.Errorf("%d of %d values, %v, %v", len(got), len(many), unreadable, err)
	}
	if got, _, _ := b.Export(ctx, "app/m"); !maps.Equal(got, value.Named{"check_count": "5", "note": `"x"`}) {
		t.Errorf("exported: %v", got)
	}
	begin(t, b, "app/m", 1)
	mustSet(t, b, "app/m", 1, "threshold=1")
	if got, _, _ := b.Export(ctx, "app/m"); len(got) != 2 {
		t.Errorf("what is not persistent was exported: %v", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, a := range b.agents {
		if len(a.staged.entries)+len(a.imports.entries) > 0 || a.unknown {
			t.Errorf("%s: left %d and %d", path, len(a.staged.entries), len(a.imports.entries))
		}
	}
}
