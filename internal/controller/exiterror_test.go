package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestErrorsAfterARestart checks that the next daemon knows an error of a last exit for what
// it is: the order that has started an agent too often, and a failure that no restart mends.
func TestErrorsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db, tree := newStage(), memory.New(), treeOf(t, "often", "final")
		edited(t, tree, "often", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, 24*time.Hour) })
		edited(t, tree, "final", func(a *spec.Agent) { a.Limit = supervisor.GivingUp(5) })
		p := raise(t, s, db, tree)
		for range 3 {
			nightly := api.WithOrder(context.Background(), "nightly")
			_, _ = p.control.Act(nightly, "t/often", control.Restart) // the last one is refused
			p.moment()
		}
		s.on("t/final").end(supervisor.Exit{Kind: supervisor.Failure,
			Err: fmt.Errorf("no use: %w", supervisor.ErrDoNotRestart)})
		p.moment()
		for _, when := range []string{"the first daemon", "the next one"} {
			nodes, err := p.status.Nodes(context.Background(), "t/often")
			if err != nil || nodes[0].TooOftenBy != "nightly" {
				t.Errorf("%s: %v, %+v", when, err, nodes)
			}
			if got := p.state("t/final"); got != supervisor.GivenUp {
				t.Errorf("%s: final is %v", when, got)
			}
			p.close()
			p = raise(t, s, db, tree)
		}
		p.close()
	})
}
