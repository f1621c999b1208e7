package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// For the slots of an agent that belongs in tmux: which incarnation is adopted, and which slots are
// emptied.
func TestAssign(t *testing.T) {
	const alive, dead = runtime.Alive, runtime.Dead
	see := func(kind string, n uint64, life runtime.Life) Slot {
		return Slot{kind, runtime.Observation{Path: "t/a", Incarnation: n, Life: life}}
	}
	for _, tt := range []struct {
		name   string
		record *Record // nil: the store knows nothing
		slots  []Slot
		adopt  string // kind and incarnation
		stale  string // kinds
		start  bool   // the record says that it is to be started again
		after  uint64 // the number of the last incarnation
	}{
		{"at home", &Record{Incarnation: 3}, []Slot{see("tmux", 3, alive)}, "tmux 3", "", false, 3},
		{"at home, and the start of the next one has failed", &Record{Incarnation: 4, Ended: true},
			[]Slot{see("tmux", 3, dead)}, "", "", false, 4},
		{"an old one at home, the last one is lost", &Record{Incarnation: 4},
			[]Slot{see("tmux", 3, dead)}, "tmux 4", "", false, 4},
		{"at home, it still runs", &Record{Incarnation: 4, Ended: true},
			[]Slot{see("tmux", 3, alive)}, "tmux 3", "", false, 3},
		{"elsewhere", &Record{Incarnation: 3}, []Slot{see("proc", 3, alive)}, "", "proc", true, 3},
		{"elsewhere, newer than known", &Record{Incarnation: 2, Ended: true}, []Slot{see("proc", 3, alive)}, "", "proc", true, 3},
		{"elsewhere, not known", nil, []Slot{see("proc", 3, alive)}, "", "proc", true, 3},
		{"ended elsewhere, unseen", &Record{Incarnation: 3}, []Slot{see("proc", 3, dead)}, "proc 3", "proc", false, 3},
		{"ended elsewhere, dealt with", &Record{Incarnation: 3, Ended: true}, []Slot{see("proc", 3, dead)}, "", "proc", false, 3},
		{"an old one elsewhere, lost at home", &Record{Incarnation: 4}, []Slot{see("proc", 3, dead)}, "tmux 4", "proc", false, 4},
		{"an old one elsewhere, dealt with at home", &Record{Incarnation: 4, Ended: true}, []Slot{see("proc", 3, dead)}, "", "proc", false, 4},
		{"at home, and an old one elsewhere", &Record{Incarnation: 4}, []Slot{see("proc", 3, dead), see("tmux", 4, alive)}, "tmux 4", "proc", false, 4},
		{"twice, the newer one at home", &Record{Incarnation: 4}, []Slot{see("proc", 3, alive), see("tmux", 4, alive)}, "tmux 4", "proc", false, 4},
		{"twice, the newer one elsewhere", &Record{Incarnation: 4}, []Slot{see("proc", 4, alive), see("tmux", 3, alive)}, "", "proc tmux", true, 4},
		{"twice, the same number", &Record{Incarnation: 4}, []Slot{see("proc", 4, alive), see("tmux", 4, alive)}, "tmux 4", "proc", false, 4},
		{"elsewhere, and an old one at home", &Record{Incarnation: 4}, []Slot{see("proc", 4, alive), see("tmux", 3, dead)}, "", "proc", true, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close(context.Background())
			m := New(Options{
				Log: log, Fleet: func() Fleet { return fleet{"t/a": {Name: "a", Runtime: spec.Tmux}} },
			})
			r := &restorer{m, &SavedState{Records: make(map[string]*Record)}, m.Fleet().Agents()}
			if tt.record != nil {
				tt.record.Path, tt.record.State = "t/a", supervisor.Running.String()
				r.saved.Records["t/a"] = tt.record
			}
			r.assign("t/a", tt.slots)
			adopt, stale := "", ""
			if a, ok := m.adoptions["t/a"]; ok {
				adopt = fmt.Sprint(a.kind, " ", a.incarnation)
			}
			if s := m.staleSlots["t/a"]; s != nil {
				var kinds []string
				for _, o := range s.slots {
					kinds = append(kinds, o.Kind)
				}
				stale = strings.Join(kinds, " ")
			}
			rec := r.saved.Records["t/a"]
			start := rec.Ended && rec.State == supervisor.Waiting.String()
			got, want := []any{adopt, stale, start, rec.Incarnation}, []any{tt.adopt, tt.stale, tt.start, tt.after}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// starts is a StartLog that nothing waits for.
type starts struct{ StartLog }

func (starts) Forget(string) {}

// A run logs an exit that is not on record, once. Its numbers begin at 1 again, so a slot with a lower number than the
// record is news only if the record is older.
func TestRestoreOnce(t *testing.T) {
	saved := time.Now()
	earlier, later := saved.Add(-time.Minute), saved.Add(time.Minute)
	failed := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("exit code 7")}
	dead := func(n uint64, at time.Time) runtime.Observation {
		return runtime.Observation{Path: "t/a", Incarnation: n, Life: runtime.Dead, StartedAt: at, Exit: failed}
	}
	for name, tt := range map[string]struct {
		record Record
		slot   runtime.Observation
		want   []string // events and their incarnations
	}{
		"on record":                        {Record{Incarnation: 2, Ended: true}, dead(2, earlier), nil},
		"on record, the next start failed": {Record{Incarnation: 3, Ended: true}, dead(2, earlier), nil},
		"on record, the next one is lost":  {Record{Incarnation: 3}, dead(2, earlier), []string{"agent.lost 3"}},
		"not on record":                    {Record{Incarnation: 2}, dead(2, earlier), []string{"agent.crashed 2"}},
		"not on record, numbered from 1": {
			Record{Incarnation: 3, Ended: true}, dead(1, later), []string{"agent.crashed 1"}},
		"not on record, nor its start": {
			Record{Incarnation: 1, Ended: true}, dead(2, later), []string{"agent.started 2", "agent.crashed 2"}},
		"nothing on record": {Record{}, dead(1, later), []string{"agent.started 1", "agent.crashed 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close(context.Background())
			m := New(Options{
				Log: log, Once: true, Starts: starts{}, Fleet: func() Fleet { return fleet{"t/a": {Name: "a"}} },
			})
			tt.record.Path, tt.record.SavedAt = "t/a", saved
			m.Restore(t.Context(), &SavedState{Records: map[string]*Record{"t/a": &tt.record}},
				map[string][]Slot{"t/a": {{"proc", tt.slot}}})
			if err := log.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			all, _, err := log.Read(t.Context(), 0, event.Filter{}, 10)
			var got []string
			for _, e := range all {
				got = append(got, fmt.Sprint(e.Type, " ", e.Incarnation))
			}
			if err != nil || !slices.Equal(got, tt.want) || len(m.adoptions) != 0 || tt.record.Incarnation != 0 {
				t.Errorf("logged %q, %v, expected %q; adopted: %v; record: %+v", got, err, tt.want, m.adoptions,
					tt.record)
			}
		})
	}
}

// The limit of an agent counts the starts and restarts that the last daemon could not write.
func TestResumeCounts(t *testing.T) {
	starts, restarts := supervisor.Quarantining(100, time.Hour), supervisor.Escalating(100, time.Hour)
	at := time.Now()
	for name, tt := range map[string]struct {
		limit  supervisor.Limit
		record Record
		want   int // counted, after three restarts
	}{
		"the record is of the first start": {starts, Record{State: "running", Counted: []time.Time{at}}, 4},
		"the record is of the first exit": {
			starts, Record{Ended: true, State: "restarting", Restarts: 1, Counted: []time.Time{at}}, 4},
		"the record is of the first exit, with a restart at once": {
			starts, Record{Ended: true, State: "waiting", Restarts: 1, Counted: []time.Time{at, at}}, 4},
		"restarts, the record is of the first start": {restarts, Record{State: "running"}, 3},
		"restarts, the record is of the first exit": {
			restarts, Record{Ended: true, State: "restarting", Restarts: 1, Counted: []time.Time{at}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close(context.Background())
			m := New(Options{
				Log: log, Fleet: func() Fleet { return fleet{"t/a": {Name: "a", Limit: tt.limit}} },
			})
			rec := tt.record
			rec.Path, rec.Incarnation = "t/a", 1
			r := &restorer{m, &SavedState{Records: map[string]*Record{"t/a": &rec}}, m.Fleet().Agents()}
			var before []runtime.Ended
			for n := range uint64(3) {
				before = append(before, runtime.Ended{Incarnation: n + 1, Exit: supervisor.Exit{Kind: supervisor.Failure}})
			}
			r.resume(Slot{"proc", runtime.Observation{
				Path: "t/a", Incarnation: 4, Life: runtime.Alive, StartedAt: at, Before: before,
			}})
			if len(rec.Counted) != tt.want || rec.Restarts != 3 {
				t.Errorf("%d counted, want %d; %d restarts, want 3", len(rec.Counted), tt.want, rec.Restarts)
			}
		})
	}
}

// fleet is a Fleet of agents that no file suspends.
type fleet map[string]*spec.Agent

func (f fleet) Agents() map[string]*spec.Agent { return f }
func (fleet) Suspends(string) bool             { return false }

func (fleet) Declared(_ string, a *spec.Agent) spec.Hash { return a.DeclaredHash() }
func (fleet) Logs() spec.Logs                            { return spec.Logs{} }

// lister is a runtime that can only be asked what there is.
type lister struct {
	runtime.Runtime
	kind string
	list func() ([]runtime.Observation, error)
}

func (l lister) Kind() string                                        { return l.kind }
func (l lister) List(context.Context) ([]runtime.Observation, error) { return l.list() }

// What a runtime cannot tell is waited for, unless the agent is at home there.
func TestLookWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		proc := lister{kind: "proc", list: func() ([]runtime.Observation, error) {
			if time.Since(begin) < time.Minute {
				return nil, errors.New("no descriptors left")
			}
			o := []runtime.Observation{{Path: "t/a", Life: runtime.Unknown}, {Path: "t/b", Life: runtime.Unknown}}
			if time.Since(begin) > 2*time.Minute {
				o[1].Life = runtime.Alive // moves to tmux
			}
			return o, nil
		}}
		sessions := lister{kind: "tmux", list: func() ([]runtime.Observation, error) { return nil, nil }}
		m := New(Options{
			Logger: slog.New(slog.DiscardHandler), Runtimes: []runtime.Runtime{proc, sessions},
			Fleet: func() Fleet { return fleet{"t/a": {Name: "a"}, "t/b": {Name: "b", Runtime: spec.Tmux}} },
		})
		found, err := m.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 2*time.Minute || d > 2*time.Minute+2*time.Second {
			t.Errorf("it took %v, want 2 minutes", d)
		}
		if len(found["t/a"]) != 1 || len(found["t/b"]) != 1 {
			t.Errorf("found %v", found)
		}
		begin = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Look(ctx); !errors.Is(err, runtime.ErrUnknown) || !strings.Contains(err.Error(), "no descriptors left") {
			t.Errorf("got %v", err)
		}
	})
}

// With persist = false, limits know nothing from before, people do.
func TestResetLimit(t *testing.T) {
	at := time.Now()
	for st := supervisor.Stopped; st <= supervisor.Suspended; st++ {
		s := &supervisor.Saved{
			State: st, Incarnation: 7, Restarts: 6, Attempt: 5, Counted: []time.Time{at}, NextAt: at, StartedAt: at, Adopt: true,
			LastExit: supervisor.Exit{Kind: supervisor.Failure}, Reason: supervisor.ReasonReset,
		}
		want := supervisor.Saved{State: st, Incarnation: 7, StartedAt: at, Adopt: true, LastExit: s.LastExit, Reason: s.Reason}
		if slices.Contains([]supervisor.State{supervisor.Restarting, supervisor.Quarantined, supervisor.GivenUp}, st) {
			want.State, want.Reason = supervisor.Waiting, supervisor.NoReason
		}
		ResetLimit(s)
		if diff := cmp.Diff(want, *s); diff != "" {
			t.Errorf("%v (-want +got)\n%s", st, diff)
		}
	}
}
