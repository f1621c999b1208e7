package record_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Of concurrent calls one creates the record, and all see it, also if the outcomes of writes are unknown. The same
// holds for deletes.
func TestConcurrent(t *testing.T) {
	var unknown int
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			faults := storetest.NewFaults(memory.New(), seed, storetest.Rates{Unknown: 0.5, Conflict: 0.3})
			defer faults.Close()
			const callers = 8
			var created [callers]bool
			var seen [callers]store.Record
			concurrently(callers, func(n int) {
				var err error
				seen[n], created[n], err = record.Create(t.Context(), faults, "a/b", fmt.Append(nil, "of ", n))
				if err != nil {
					t.Error(err)
				}
			})
			winner := -1
			for n := range callers {
				if created[n] && winner >= 0 {
					t.Errorf("seed %d: %d and %d have created the record", seed, winner, n)
				}
				if created[n] {
					winner = n
				}
				if !reflect.DeepEqual(seen[n], seen[0]) || seen[n].Key != "a/b" {
					t.Errorf("seed %d: %v and %v were seen", seed, seen[0], seen[n])
				}
			}
			if winner < 0 || string(seen[0].Value) != fmt.Sprint("of ", winner) {
				t.Errorf("seed %d: %d has created %q", seed, winner, seen[0].Value)
			}
			concurrently(callers, func(int) {
				if gone, err := record.Delete(t.Context(), faults, seen[0]); err != nil || !gone {
					t.Errorf("deleting: %v, %v", gone, err)
				}
			})
			unknown += faults.Counts().UnknownDone
		})
	}
	if unknown == 0 {
		t.Error("no outcome was unknown")
	}
}

func concurrently(callers int, f func(n int)) {
	var wait sync.WaitGroup
	for n := range callers {
		wait.Go(func() { f(n) })
	}
	wait.Wait()
}

// A record that was written again is left alone.
func TestDeleteChanged(t *testing.T) {
	s := memory.New()
	defer s.Close()
	old, _, err := record.Create(t.Context(), s, "a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), store.Fence{}, nil,
		[]store.Op{{Kind: store.Put, Key: "a", Value: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if gone, err := record.Delete(t.Context(), s, old); gone || err != nil {
		t.Errorf("%v, %v", gone, err)
	}
	if r, err := store.Get(t.Context(), s, "a"); string(r.Value) != "2" || err != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
		defer faults.Close()
		for _, fail := range []error{store.ErrFull, store.ErrReadOnly} {
			faults.Fail(fail)
			if _, created, err := record.Create(t.Context(), faults, "a", nil); created || !errors.Is(err, fail) {
				t.Errorf("%v, %v, want %v", created, err, fail)
			}
		}
		faults.Fail(store.ErrUnknown)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, created, err := record.Create(ctx, faults, "a", nil); created || !errors.Is(err, store.ErrUnknown) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v", created, err)
		}
		if _, _, err := record.Create(t.Context(), faults, "a//b", nil); err == nil ||
			!strings.Contains(err.Error(), "invalid key") {
			t.Error(err)
		}
	})
}
