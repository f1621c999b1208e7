package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// ledger is a ledger that keeps what it is asked.
type ledger struct {
	counted []cost.Run
	fails   error
	spent   int64
}

func (l *ledger) Count(_ context.Context, r cost.Run) error {
	if l.fails == nil {
		l.counted = append(l.counted, r)
	}
	return l.fails
}

func (l *ledger) Chain(_ context.Context, _ string, began time.Time) (int64, []cost.Session, error) {
	return l.spent, []cost.Session{{CLI: agentcli.Codex, ID: "s", Usage: agentcli.Models{"m": {Input: 3}}}}, l.fails
}

// last returns the last run, with the models of its calls, and forgets all.
func (l *ledger) last() (r cost.Run, models []string) {
	if n := len(l.counted); n > 0 {
		r = l.counted[n-1]
	}
	for _, c := range r.Calls {
		models = append(models, c.Model)
	}
	l.counted, r.Calls = nil, nil
	return r, models
}

type callsFleet struct {
	fleet
	adopting *bool
}

func (f callsFleet) IsAdopting(string) bool { return *f.adopting }

// detachedRun is a run that the daemon leaves running.
type detachedRun struct{ exitedRun }

func (detachedRun) Detached() bool { return true }

// What is known of the calls of a run reaches the ledger when it ends, when the daemon starts and before the next run
// begins, and the next request has what the ledger knows.
func TestCalls(t *testing.T) {
	t.Parallel()
	file := &aidefile.Agent{Path: "/Aidefile", File: aidefile.Default()}
	l, adopting := &ledger{spent: 42}, false
	m := New(Options{
		Agents: callsFleet{fleet{file: file}, &adopting}, Ledger: l, Dir: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler),
		LogUnexpected: func(what, _ string, err error) {
			if err != nil && l.fails == nil {
				t.Errorf("%s: %v", what, err)
			}
		},
		LastStatus: func(error) string { return "" },
	})
	m.Add("t/a", file, nil, Previous{})
	if len(l.counted) != 0 {
		t.Errorf("it has never run: %+v", l.counted)
	}
	a := m.of("t/a")
	chain := time.Now().Add(-time.Hour)
	a.request.Fired, a.request.Chain, a.request.Issue = chain, chain, 7
	started := 0
	start := m.Start(func(context.Context) (supervisor.Process, error) {
		started++
		return exitedRun{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}, nil
	})
	run := func() {
		a.gate.open()
		sup, err := supervisor.Start(t.Context(), supervisor.Spec{Name: "t"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { sup.Stop(); sup.Wait() }()
		_, err = sup.StartChild(t.Context(), supervisor.ChildSpec{ID: "a", Restart: supervisor.Temporary, Start: start})
		if err != nil && l.fails == nil {
			t.Fatal(err)
		}
	}
	calls := func(all callfile.Records) {
		text, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(m.requestFile("t/a")), "calls.json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := m.writeRequest("t/a", a); err != nil {
		t.Fatal(err)
	}
	q, err := runner.Read(m.requestFile("t/a"))
	sessions := map[string]agentcli.Models{"s": {"m": {Input: 3}}}
	if err != nil || q.Spent != 42 || !reflect.DeepEqual(q.Sessions, sessions) {
		t.Errorf("%+v, %v", q, err)
	}

	all := callfile.Records{
		Fired: chain, Run: "r1", Dropped: 2, Calls: []agentcli.Record{{Model: "one"}},
		Running: &agentcli.Record{Model: "two"},
	}
	calls(all)
	want := cost.Run{Agent: "t/a", ID: "r1", Task: "issue 7", Chain: chain, Dropped: 2}
	check := func(what string, incarnation uint64, expected ...string) {
		t.Helper()
		r, models := l.last()
		want.Incarnation = incarnation
		if want.Chain.Equal(r.Chain) {
			r.Chain = want.Chain
		}
		if !reflect.DeepEqual(r, want) || !reflect.DeepEqual(models, expected) {
			t.Errorf("%s: %+v, calls %q", what, r, models)
		}
	}
	adopting = true // the call may go on
	m.Add("t/a", file, nil, Previous{})
	check("the daemon starts while it runs", 0, "one")
	adopting = false
	m.Add("t/a", file, nil, Previous{})
	check("it has ended unseen", 0, "one", "two")
	reportedRun{detachedRun{exitedRun{Kind: supervisor.ShutDown}}, m, "t/a", 3}.Wait()
	if len(l.counted) != 0 {
		t.Error("it still runs, and is counted")
	}
	reportedRun{exitedRun{Kind: supervisor.ShutDown}, m, "t/a", 3}.Wait()
	check("it was stopped", 3, "one", "two")

	l.fails = errors.New("the disk is full")
	if run(); started != 0 {
		t.Error("the next run removes what is not counted")
	}
	if err := m.countLast("t/a"); !errors.As(err, new(*supervisor.RetryError)) {
		t.Errorf("%v", err)
	}
	l.fails = nil
	run()
	if started != 1 {
		t.Errorf("started %d times", started)
	}

	calls(all)
	reportedRun{exitedRun{Kind: supervisor.Normal}, m, "t/a", 4}.Wait()
	check("a success", 4, "one", "two")
	q, err = runner.Read(m.requestFile("t/a"))
	if err != nil || !q.Chain.After(chain) || !q.Fired.Equal(chain) {
		t.Errorf("the chain goes on: %+v, %v", q, err)
	}
	calls(callfile.Records{Fired: chain.Add(1), Run: "r0", Calls: []agentcli.Record{{}}})
	m.Add("t/a", file, nil, Previous{})
	if r, models := l.last(); len(models)+r.Dropped != 0 {
		t.Errorf("calls of another request: %+v", r)
	}
	broken := filepath.Join(filepath.Dir(m.requestFile("t/a")), "calls.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.LogUnexpected = func(string, string, error) {}
	if err := m.countLast("t/a"); err != nil || len(l.counted) != 0 {
		t.Errorf("what cannot be read holds up the agent: %v", err)
	}
}
