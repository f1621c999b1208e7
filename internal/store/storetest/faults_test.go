package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without any rate it is the store that it wraps.
func TestFaultsNone(t *testing.T) {
	Run(t, Backend{Open: func(string) (store.Store, error) { return NewFaults(memory.New(), 1, Rates{}), nil }, Bubble: true})
}

func TestFaultsApply(t *testing.T) {
	ctx := context.Background()
	inner := memory.New()
	f := NewFaults(inner, 7, Rates{Unknown: 0.5, Conflict: 0.3})
	var done, notDone, conflicts, good int
	for i := range 1000 {
		key := fmt.Sprint("k", i)
		_, err := f.Apply(ctx, store.Fence{}, []store.Cond{{Key: key}}, []store.Op{put(key, "v")})
		written := get(t, inner, key).Key != ""
		switch {
		case err == nil && written:
			good++
		case errors.Is(err, store.ErrUnknown) && written:
			done++
		case errors.Is(err, store.ErrUnknown):
			notDone++
		case errors.Is(err, store.ErrConflict) && !written:
			conflicts++
		default:
			t.Fatalf("written %v, error %v", written, err)
		}
	}
	if done < 50 || notDone < 50 || conflicts < 100 || good < 100 {
		t.Errorf("%d good, %d unknown but done, %d unknown and not done, %d false conflicts", good, done, notDone, conflicts)
	}
	if want := (Counts{UnknownDone: done, UnknownNotDone: notDone, Conflicts: conflicts}); f.Counts() != want {
		t.Errorf("counts %+v, want %+v", f.Counts(), want)
	}
	// Without conditions there is nothing to be in conflict with.
	f = NewFaults(memory.New(), 7, Rates{Conflict: 1})
	must(t, f, put("a", "1"))

	f.Fail(store.ErrFull)
	_, err := f.Apply(ctx, store.Fence{}, nil, []store.Op{put("a", "2")})
	wantErr(t, "apply while failing", err, store.ErrFull)
	_, err = f.Acquire(ctx, "l", time.Second)
	wantErr(t, "acquire while failing", err, store.ErrFull)
	f.Fail(nil)
	must(t, f, put("a", "3"))
	if f.Counts().Failed != 2 {
		t.Errorf("counts %+v", f.Counts())
	}
}

func TestFaultsSameSeed(t *testing.T) {
	run := func(seed uint64) (out []string) {
		f := NewFaults(memory.New(), seed, AllFaults)
		for i := range 50 {
			_, err := f.Apply(context.Background(), store.Fence{}, []store.Cond{{Key: "x", Rev: store.Rev(i)}}, []store.Op{put("x", "")})
			out = append(out, fmt.Sprint(err))
		}
		return out
	}
	if !slices.Equal(run(3), run(3)) {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(run(3), run(4)) {
		t.Error("two seeds give the same faults")
	}
}

func TestFaultsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFaults(memory.New(), 5, Rates{Repeat: 0.3, Late: 0.3, MaxDelay: time.Hour})
		for i := range 200 {
			must(t, f, put("k", fmt.Sprint(i)))
		}
		begin := time.Now()
		next, repeated := store.Rev(1), 0
		for c, err := range f.Watch(t.Context(), "", 0) {
			switch {
			case err != nil:
				t.Fatal(err)
			case c.Rev == next:
				next++
			case c.Rev < next:
				repeated++
			default:
				t.Fatalf("revision %d was left out", next)
			}
			if next == 200 && repeated > 0 {
				break
			}
		}
		if counts := f.Counts(); repeated < 50 || counts.Late < 30 || time.Since(begin) < 10*time.Hour {
			t.Errorf("%d repeated, %+v, took %v", repeated, counts, time.Since(begin))
		}
	})
}

func TestFaultsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFaults(memory.New(), 1, Rates{Unknown: 1})
		for f.Counts().UnknownDone == 0 {
			l, err := f.Acquire(t.Context(), "l", time.Minute)
			if err == nil {
				err = l.Release(t.Context())
			} else if errors.Is(err, store.ErrUnknown) {
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f.rates.Unknown = 0
		_, err := f.Acquire(t.Context(), "l", time.Minute)
		wantErr(t, "acquire of a lease without a holder", err, store.ErrHeld)
		time.Sleep(time.Minute)
		acquire(t, f, "l", time.Minute)
	})
}
