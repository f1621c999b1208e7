package store_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// The rate is that of the last minute, and totals stay.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m store.Meter
		ops := []store.Op{{Kind: store.Put, Key: "ab", Value: []byte("123")}, {Kind: store.Delete, Key: "c"}}
		m.Count(nil) // a check
		for _, step := range []struct {
			after  time.Duration
			count  int
			perMin float64
		}{
			{0, 0, 0}, {0, 6, 6}, {30 * time.Second, 3, 9}, {29 * time.Second, 0, 9}, {time.Second, 0, 3},
			{29 * time.Second, 1, 4}, {time.Second, 0, 1}, {time.Hour, 0, 0}, {0, 2, 2}, {59 * time.Second, 1, 3},
			{59 * time.Second, 0, 1}, {time.Second, 0, 0},
		} {
			time.Sleep(step.after)
			for range step.count {
				m.Count(ops)
			}
			if got := m.Writes().PerSecond * 60; math.Abs(got-step.perMin) > 1e-6 {
				t.Errorf("%v later, and %d more: %g in the last minute, want %g", step.after, step.count, got, step.perMin)
			}
		}
		if w := m.Writes(); w.Transactions != 13 || w.Records != 26 || w.Bytes != 13*6 {
			t.Errorf("%+v", w)
		}
	})
}
