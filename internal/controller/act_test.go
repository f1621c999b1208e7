package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A restart goes on when the client that has asked for it does not wait for it.
func TestRestartWithoutItsClient(t *testing.T) {
	for _, path := range []string{"t/s/a", "t/s"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			s.plays("t/s/a", part{stops: 4 * time.Second})
			p := raise(t, s, memory.New(), treeOf(t, "s(a b)"))
			defer p.close()
			ctx, cancel := context.WithCancel(context.Background())
			go p.control.Act(ctx, path, control.Restart)
			time.Sleep(time.Second)
			cancel()
			time.Sleep(time.Minute)
			if s.on("t/s/a") == nil || s.on("t/s/b") == nil || s.starts("t/s/a") != 2 {
				t.Errorf("%s was restarted; there live %q", path, s.cast())
			}
		})
	}
}
