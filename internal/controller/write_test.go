package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestEventOfAbandoned: the late end of an abandoned incarnation leaves the
// record of its successor alone.
func TestEventOfAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		time.Sleep(time.Minute)
		p.stage.on("t/a").end(supervisor.Exit{Kind: supervisor.Normal})
		time.Sleep(time.Minute)
		saved, _, err := p.root.Save("a")
		if err != nil || saved.Incarnation != 2 {
			t.Fatalf("got %+v, %v", saved, err)
		}
		p.event(supervisor.ChildReturned{EventHeader: supervisor.EventHeader{
			Supervisor: "t", ID: "a", Incarnation: 1, After: &supervisor.Snapshot{Child: saved, Listed: true},
		}})
		p.journal.AwaitRecord(context.Background(), "t/a", func(last *agent.Record) bool {
			if last.Incarnation != 2 || last.Ended {
				t.Errorf("the record is that of incarnation %d, ended %v", last.Incarnation, last.Ended)
			}
			return true
		})
	})
}
