package journal

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
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
			removed := agent.NewRecord("t/x", 3, true, supervisor.Saved{State: supervisor.Waiting})
			if row.gone != 0 {
				removed.State = row.gone.String()
			}
			j := New(Options{
				Wanted:  func(path string) bool { return path == "t/a" },
				Removed: func(string, uint64) *agent.Record { return removed },
				Hash:    func(string, uint64) *agent.SavedHash { return nil },
			})
			r, ops := j.recordOf(supervisor.EventHeader{Supervisor: "t", ID: row.id, Incarnation: 3, After: row.after})
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

// TestAwaitRecord: a caller waits until what it asks for is noted, and no longer than for a moment.
func TestAwaitRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		stopped := func(r *agent.Record) bool { return r.State == supervisor.Stopped.String() }
		waited := make(chan time.Duration)
		await := func() {
			began := time.Now()
			j.AwaitRecord(t.Context(), "t/a", stopped)
			waited <- time.Since(began)
		}
		go await()
		synctest.Wait()
		j.Note("t/a", &agent.Record{State: supervisor.Running.String()})
		time.Sleep(maxWait / 2)
		j.Note("t/b", &agent.Record{State: supervisor.Stopped.String()})
		j.Note("t/a", &agent.Record{State: supervisor.Stopped.String()})
		if took := <-waited; took != maxWait/2 {
			t.Errorf("it waited %v", took)
		}
		j.Note("t/a", &agent.Record{State: supervisor.Running.String()})
		go await()
		if took := <-waited; took != maxWait {
			t.Errorf("what never comes is waited for %v", took)
		}
	})
}

// TestAwaitEarlier: an agent that ends faster than the log is written does not get further ahead than
// its slot remembers.
func TestAwaitEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		took := func(incarnation uint64) time.Duration {
			began := time.Now()
			j.AwaitEarlier(t.Context(), "t/a", incarnation)
			return time.Since(began)
		}
		if took(9) != 0 {
			t.Error("it waits although no start is known")
		}
		j.Restore("t/a", 4)
		for incarnation, want := range map[uint64]time.Duration{2: 0, 6: 0, 7: maxWait} {
			if got := took(incarnation); got != want {
				t.Errorf("before incarnation %d it waited %v, want %v", incarnation, got, want)
			}
		}
		j.Event(supervisor.ChildStarted{EventHeader: supervisor.EventHeader{
			Supervisor: "t", ID: "a", Incarnation: 5,
			After: &supervisor.Snapshot{Listed: true, Child: supervisor.Saved{State: supervisor.Running, Incarnation: 5}},
		}})
		if j.LastStart("t/a") != 5 || took(7) >= maxWait {
			t.Errorf("it waits although incarnation %d is in the log", j.LastStart("t/a"))
		}
		j.Forget("t/a")
		if j.LastStart("t/a") != 0 {
			t.Error("the starts are not forgotten")
		}
	})
}

// newJournal returns a journal of one agent, whose slot remembers two exits.
func newJournal(t *testing.T) *Journal {
	log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close(context.Background()) })
	return New(Options{
		Log:       log,
		Wanted:    func(path string) bool { return path == "t/a" },
		Hash:      func(string, uint64) *agent.SavedHash { return nil },
		Features:  func(supervisor.Event) []store.Op { return nil },
		Remembers: func(string) int { return 2 },
	})
}
