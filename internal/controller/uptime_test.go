package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// An agent that ended while no controller ran had run until then, not until the next
// controller found it.
func TestUptimeOfAnEndThatNobodySaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db, tree := newStage(), memory.New(), treeOf(t, "a")
		p := raise(t, s, db, tree)
		p.Stop(true)
		<-p.Ended()
		a := s.on("t/a")
		time.Sleep(time.Until(a.started.Add(3 * time.Second)))
		a.end(part{}.ending())
		time.Sleep(10 * time.Minute)
		p = raise(t, s, db, tree)
		defer p.close()
		want := "t/a ended after 3.0s: exit code 1; restart: it always restarts"
		if got := strings.Join(p.happened(event.AgentCrashed), "\n"); got != want {
			t.Errorf("its end is told as %q, want %q", got, want)
		}
	})
}
