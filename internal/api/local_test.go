package api

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
)

// Without a daemon, the existing items come first, and then ErrDown.
func TestFinite(t *testing.T) {
	for _, follow := range []bool{false, true} {
		c := Local(func(s *Server) {
			counts.Handle(s, func(_ context.Context, r countRequest) iter.Seq2[counted, error] {
				return Finite(func(yield func(counted, error) bool) {
					_ = yield(numbered(1), nil) && yield(numbered(2), nil)
				}, r.Follow)
			})
		})
		var seen []uint64
		var last error
		for m, err := range counts.Open(t.Context(), c, countRequest{Follow: follow}) {
			if last = err; err == nil {
				seen = append(seen, m.N)
			}
		}
		if !slices.Equal(seen, []uint64{1, 2}) || errors.Is(last, ErrDown) != follow {
			t.Errorf("follow %v: %v, %v", follow, seen, last)
		}
		c.Close()
	}
}
