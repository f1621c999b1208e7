package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestRecordOfEvent: the record of a child follows from the event about it alone.
func TestRecordOfEvent(t *testing.T) {
	withdrawn := &supervisor.Snapshot{Listed: true, Child: supervisor.Saved{
		State: supervisor.Stopped, Reason: supervisor.ReasonRemoved, Incarnation: 3,
	}}
	at := func(state supervisor.State, why supervisor.Reason, incarnation uint64) *supervisor.Snapshot {
		saved := supervisor.Saved{State: state, Reason: why, Incarnation: incarnation}
		return &supervisor.Snapshot{Listed: true, Child: saved}
	}
	for name, row := range map[string]struct {
		id    string
		after *supervisor.Snapshot
		state supervisor.State
		ended bool
		gone  supervisor.State // what was known when it was withdrawn
	}{
		"runs": {
			id: "a", after: at(supervisor.Running, supervisor.NoReason, 3),
			state: supervisor.Running,
		},
		"is stopping": {
			id: "a", after: at(supervisor.Stopping, supervisor.ReasonStopped, 3),
			state: supervisor.Stopping,
		},
		"waits for its delay": {
			id: "a", after: at(supervisor.Restarting, supervisor.ReasonPermanent, 3),
			state: supervisor.Restarting, ended: true,
		},
		"was restarted at once": {
			id: "a", after: at(supervisor.Running, supervisor.ReasonPermanent, 4),
			state: supervisor.Waiting, ended: true,
		},
		"is suspended": {
			id: "a", after: at(supervisor.Suspended, supervisor.ReasonSuspended, 3),
			state: supervisor.Suspended, ended: true,
		},
		"stops with all": {
			id: "a", after: at(supervisor.Stopped, supervisor.ReasonShutdown, 3),
			state: supervisor.Waiting, ended: true,
		},
		"ends its supervisor": {
			id: "a", after: at(supervisor.Stopped, supervisor.ReasonLimitEscalate, 3),
			state: supervisor.Waiting, ended: true,
		},
		"temporary": {
			id: "a", after: &supervisor.Snapshot{},
			state: supervisor.Stopped, ended: true,
		},
		"withdrawn": {
			id: "x", after: withdrawn,
			state: supervisor.Waiting, ended: true,
		},
		"withdrawn and forgotten": {
			id: "x", after: &supervisor.Snapshot{},
			state: supervisor.Waiting, ended: true,
		},
		"withdrawn when suspended": {
			id: "x", after: withdrawn,
			state: supervisor.Suspended, ended: true, gone: supervisor.Suspended,
		},
		"withdrawn and stopping": {
			id: "x", after: at(supervisor.Stopping, supervisor.ReasonRemoved, 3),
			state: supervisor.Stopping,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newController(Options{Tree: treeOf(t, "a"), Store: memory.New(), Logger: quietly})
			if err != nil {
				t.Fatal(err)
			}
			if row.gone != 0 {
				c.applier.KeepState("t/x", supervisor.Saved{State: row.gone, Incarnation: 3})
			}
			r, ops := c.recordOf(supervisor.EventHeader{Supervisor: "t", ID: row.id, Incarnation: 3, After: row.after})
			if r.State != row.state.String() || r.Ended != row.ended || r.Incarnation != 3 {
				t.Errorf("got %+v", r)
			}
			if r.Ended && r.State != supervisor.Suspended.String() && !r.StartedAt.IsZero() {
				t.Errorf("ended, and started at %v", r.StartedAt)
			}
			if len(ops) == 0 || ops[0].Key != agent.RecordKey("t/"+row.id) {
				t.Errorf("written as %v", ops)
			}
		})
	}
}

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
		if last, _ := p.journal.of("t/a"); last.record.Incarnation != 2 || last.record.Ended {
			t.Errorf("the record is that of incarnation %d, ended %v", last.record.Incarnation, last.record.Ended)
		}
	})
}
