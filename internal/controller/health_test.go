package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
)

// TestReadyBeforeItsStartIsKnown checks that an agent without a condition, which
// says that it is ready before its start is known here, waits for that.
func TestReadyBeforeItsStartIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/a", part{takes: time.Second})
		c := mustOpen(t, s, memory.New(), treeOf(t, "a"))
		defer func() { c.Stop(false); <-c.Ended() }()
		time.Sleep(500 * time.Millisecond)
		if err := c.health.Ready(t.Context(), token.Caller{Path: "t/a", Incarnation: 1}); err != nil {
			t.Error(err)
		}
	})
}
