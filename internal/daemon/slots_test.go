package daemon

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

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/internal/work"
	"github.com/coppice-dev/coppice/supervisor"
)

// Where the last incarnation of an agent of tmux is, what becomes of it, and
// what has to go.
func TestAssign(t *testing.T) {
	const alive, dead = runtime.Alive, runtime.Dead
	see := func(kind string, n uint64, life runtime.Life) sighting {
		return sighting{kind, runtime.Observation{Path: "t/a", Incarnation: n, Life: life}}
	}
	for _, tt := range []struct {
		name   string
		record *record // nil: the store knows nothing
		slots  []sighting
		adopt  string // kind and incarnation
		strays string // kinds
		start  bool   // the record says that it is to be started anew
		after  uint64 // the number of the last incarnation
	}{
		{"at home", &record{Incarnation: 3}, []sighting{see("tmux", 3, alive)}, "tmux 3", "", false, 3},
		{"elsewhere", &record{Incarnation: 3}, []sighting{see("proc", 3, alive)}, "", "proc", true, 3},
		{"elsewhere, newer than known", &record{Incarnation: 2, Ended: true}, []sighting{see("proc", 3, alive)}, "", "proc", true, 3},
		{"elsewhere, not known", nil, []sighting{see("proc", 3, alive)}, "", "proc", true, 3},
		{"ended elsewhere, unseen", &record{Incarnation: 3}, []sighting{see("proc", 3, dead)}, "proc 3", "proc", false, 3},
		{"ended elsewhere, dealt with", &record{Incarnation: 3, Ended: true}, []sighting{see("proc", 3, dead)}, "", "proc", false, 3},
		{"an old one elsewhere, lost at home", &record{Incarnation: 4}, []sighting{see("proc", 3, dead)}, "tmux 4", "proc", false, 4},
		{"an old one elsewhere, dealt with at home", &record{Incarnation: 4, Ended: true}, []sighting{see("proc", 3, dead)}, "", "proc", false, 4},
		{"at home, and an old one elsewhere", &record{Incarnation: 4}, []sighting{see("proc", 3, dead), see("tmux", 4, alive)}, "tmux 4", "proc", false, 4},
		{"twice, the newer one at home", &record{Incarnation: 4}, []sighting{see("proc", 3, alive), see("tmux", 4, alive)}, "tmux 4", "proc", false, 4},
		{"twice, the newer one elsewhere", &record{Incarnation: 4}, []sighting{see("proc", 4, alive), see("tmux", 3, alive)}, "", "proc tmux", true, 4},
		{"twice, the same number", &record{Incarnation: 4}, []sighting{see("proc", 4, alive), see("tmux", 4, alive)}, "tmux 4", "proc", false, 4},
		{"elsewhere, and an old one at home", &record{Incarnation: 4}, []sighting{see("proc", 4, alive), see("tmux", 3, dead)}, "", "proc", true, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close(context.Background())
			beliefs, _, err := belief.Open(context.Background(), memory.New())
			if err != nil {
				t.Fatal(err)
			}
			tasks, err := work.OpenQueue(context.Background(), work.Options{Store: memory.New()})
			if err != nil {
				t.Fatal(err)
			}
			defer tasks.Close()
			c := &Controller{
				background: newBackground(), work: tasks,
				tokens: token.New(), claims: claim.New(claim.Options{}), beliefs: beliefs,
				log:   log,
				adopt: map[string]adoption{}, strays: map[string]*stray{},
			}
			c.health = health.New(health.Options{})
			c.wanted.Store(&fleet{agents: map[string]*spec.Agent{"t/a": {Name: "a", Runtime: spec.Tmux}}})
			p := &past{records: map[string]*record{}, adopt: c.adopt}
			if tt.record != nil {
				tt.record.Path, tt.record.State = "t/a", supervisor.Running.String()
				p.records["t/a"] = tt.record
			}
			defer c.background.end()
			c.assign("t/a", tt.slots, p)
			adopt, strays := "", ""
			if a, ok := c.adopt["t/a"]; ok {
				adopt = fmt.Sprint(a.kind, " ", a.incarnation)
			}
			if s := c.strays["t/a"]; s != nil {
				var kinds []string
				for _, o := range s.in {
					kinds = append(kinds, o.kind)
				}
				strays = strings.Join(kinds, " ")
			}
			r := p.records["t/a"]
			start := r.Ended && r.State == supervisor.Waiting.String()
			got, want := []any{adopt, strays, start, r.Incarnation}, []any{tt.adopt, tt.strays, tt.start, tt.after}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

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
		c := &Controller{
			tokens: token.New(),
			opts:   Options{Logger: slog.New(slog.DiscardHandler)},
			places: map[string]runtime.Runtime{"proc": proc, "tmux": sessions},
		}
		c.wanted.Store(&fleet{agents: map[string]*spec.Agent{"t/a": {Name: "a"}, "t/b": {Name: "b", Runtime: spec.Tmux}}})
		found, err := c.look(t.Context())
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
		if _, err := c.look(ctx); !errors.Is(err, runtime.ErrUnknown) || !strings.Contains(err.Error(), "no descriptors left") {
			t.Errorf("got %v", err)
		}
	})
}

// With persist = false, limits know nothing from before, people do.
func TestForget(t *testing.T) {
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
		forget(s)
		if diff := cmp.Diff(want, *s); diff != "" {
			t.Errorf("%v (-want +got)\n%s", st, diff)
		}
	}
}
