package controller

import (
	"context"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A start that fails at once and is repeated without a delay or a limit holds up nothing else:
// not the starts of others, not a reload, not its own end. In real time, because in a
// synctest bubble no time passes during such a loop.
func TestLoopOfFailingStarts(t *testing.T) {
	s := newStage()
	s.quiet = true
	s.plays("t/db", part{start: errBoom})
	c := mustOpen(t, s, memory.New(), treeOf(t, "db", "a"))
	defer func() {
		c.Stop(false)
		<-c.Ended()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	await := func(path string, typ event.Type, n int) {
		t.Helper()
		for e, err := range c.Events(ctx, event.Query{Filter: event.Filter{Path: path, Types: []string{string(typ)}}, Follow: true}) {
			if err != nil {
				t.Fatalf("%s %s: %v", path, typ, err)
			}
			if n--; e.Path == path && n <= 0 {
				return
			}
		}
		t.Fatalf("no %s of %s: %v", typ, path, ctx.Err())
	}
	await("t/db", event.AgentStartFailed, 100)
	await("t/a", event.AgentStarted, 1)
	if _, err := c.control.Act(ctx, "t/a", control.Restart); err != nil {
		t.Error(err)
	}
	if _, err := c.apply(ctx, treeOf(t, "db", "a", "b"), fleet.Config{}); err != nil {
		t.Error(err)
	}
	await("t/b", event.AgentStarted, 1)
	if _, err := c.control.Act(ctx, "t/db", control.Stop); err != nil {
		t.Error(err)
	}
	if got, want := s.cast(), "t/a 2, t/b 1"; got != want {
		t.Errorf("there live %s, want %s", got, want)
	}
}
