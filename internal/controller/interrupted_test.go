package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// A daemon that ends in the middle of a restart by hand does not leave the agent stopped: the next one
// starts it, whatever its restart policy, and not before the last incarnation has ended.
func TestRestartInterrupted(t *testing.T) {
	const slow = 4 * time.Second // of its grace of 5
	for _, restart := range []supervisor.Restart{supervisor.Permanent, supervisor.Transient, supervisor.Temporary} {
		for _, path := range []string{"t/s/a", "t/s"} {
			for name, until := range map[string]time.Duration{
				"the next one comes while it stops": time.Second, "it has stopped before": time.Minute, "in between": 0,
			} {
				t.Run(fmt.Sprint(restart, " ", path, ": ", name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						tree := edited(t, treeOf(t, "s(a b)"), "a", func(a *spec.Agent) {
							a.Restart, a.Limit = restart, supervisor.Limit{}
						})
						s, db := newStage(), memory.New()
						s.plays("t/s/a", part{stops: slow})
						p := raise(t, s, db, tree)
						go p.control.Act(context.Background(), path, control.Restart)
						time.Sleep(time.Second)
						p.Stop(true)
						<-p.Ended()
						time.Sleep(until)
						if until == 0 { // it has stopped, and the next start was to follow
							time.Sleep(time.Minute)
							rewrite(t, db, path, func(r *agent.Record) {
								if r.State != supervisor.Stopping.String() {
									t.Errorf("the record of %s: %+v", path, r)
								}
								r.State, r.Ended = supervisor.Suspended.String(), true
							})
						}
						p = raise(t, s, db, tree)
						defer p.close()
						time.Sleep(time.Minute)
						if path == "t/s/a" && s.cast() != "t/s/a 2, t/s/b 1" || s.starts("t/s/a") != 2 {
							t.Errorf("there live %q; starts %v", s.cast(), s.begun)
						}
						if state := p.state("t/s/a"); state != supervisor.Running {
							t.Errorf("it is %v", state)
						}
					})
				})
			}
		}
	}
}

// rewrite changes the record of a node.
func rewrite(t *testing.T, db store.Store, path string, change func(*agent.Record)) {
	t.Helper()
	stored, _, err := db.Snapshot(context.Background(), agent.RecordKey(path))
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	var r agent.Record
	if err := json.Unmarshal(stored[0].Value, &r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	if _, err := db.Apply(context.Background(), store.Fence{}, nil, []store.Op{r.Op()}); err != nil {
		t.Fatal(err)
	}
}

// A controller that ends in the middle of a stop by hand does not undo it.
func TestStopInterrupted(t *testing.T) {
	for _, path := range []string{"t/s/a", "t/s"} {
		for _, until := range []time.Duration{0, time.Minute} { // it has ended by then, or has not
			synctest.Test(t, func(t *testing.T) {
				s, db, tree := newStage(), memory.New(), treeOf(t, "s(a b)")
				s.plays("t/s/a", part{stops: 4 * time.Second})
				p := raise(t, s, db, tree)
				go p.control.Act(context.Background(), path, control.Stop)
				time.Sleep(time.Second)
				p.Stop(true)
				<-p.Ended()
				time.Sleep(until)
				p = raise(t, s, db, tree)
				defer p.close()
				time.Sleep(time.Minute)
				if s.on("t/s/a") != nil || s.starts("t/s/a") != 1 || path == "t/s" && s.on("t/s/b") != nil {
					t.Errorf("%s was stopped; there live %q", path, s.cast())
				}
				nodes, err := p.status.Nodes(context.Background(), path)
				if err != nil || nodes[0].State != "stopped" || !nodes[0].StoppedByHand {
					t.Errorf("%+v, %v", nodes, err)
				}
			})
		}
	}
}
