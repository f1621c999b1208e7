package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/runtime"
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

// memoryFiles are the files of the last run of one agent.
type memoryFiles struct {
	mu    sync.Mutex
	files map[string][]byte
	fails error
	away  bool
}

func (f *memoryFiles) ReadFile(_ context.Context, path, name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.files[name]
	switch {
	case f.fails != nil:
		return nil, f.fails
	case !ok || path != "t/a":
		return nil, fs.ErrNotExist
	}
	return text, nil
}

func (f *memoryFiles) IsAway(string) bool { return f.away }

// start does what a runtime does with the files of a launch.
func (f *memoryFiles) start(l *runtime.Files) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range l.Remove {
		delete(f.files, name)
	}
	maps.Copy(f.files, l.Write)
}

// has sets what is known of the calls of the last run.
func (f *memoryFiles) has(t *testing.T, all callfile.Records) {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[callfile.Name] = text
}

func (f *memoryFiles) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = err
}

// callsHarness is an agent whose runs report calls.
type callsHarness struct {
	*Manager
	t        *testing.T
	ledger   *ledger
	files    *memoryFiles
	adopting bool
	started  int
	logged   []error
	want     cost.Run
}

func newCallsHarness(t *testing.T) *callsHarness {
	h := &callsHarness{t: t, ledger: &ledger{spent: 42}, files: &memoryFiles{files: map[string][]byte{}}}
	file := &aidefile.Agent{Path: "/Aidefile", File: aidefile.Default()}
	h.Manager = New(Options{
		Agents: callsFleet{fleet{file: file}, &h.adopting}, Ledger: h.ledger, Files: h.files,
		Logger: slog.New(slog.DiscardHandler), Go: func(f func(context.Context)) { f(t.Context()) },
		LogUnexpected: func(_, _ string, err error) {
			if err != nil {
				h.logged = append(h.logged, err)
			}
		},
		LastStatus: func(error) string { return "" },
	})
	return h
}

// add adds the agent, whose last run may go on.
func (h *callsHarness) add(goesOn bool) {
	h.adopting = goesOn
	saved := &supervisor.Saved{Adopt: goesOn}
	h.Add("t/a", h.Agents.Aidefile("t/a"), saved, Previous{})
	h.adopting = false
}

// again forgets the agent, as another daemon does.
func (h *callsHarness) again() { delete(h.byPath, "t/a") }

// run starts a run, which fails.
func (h *callsHarness) run() error {
	a := h.of("t/a")
	a.gate.open()
	start := h.Start(func(ctx context.Context) (supervisor.Process, error) {
		l, err := h.LaunchFiles(ctx, "t/a")
		if err != nil {
			return nil, err
		}
		h.files.start(l)
		h.started++
		return exitedRun{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}, nil
	})
	sup, err := supervisor.Start(h.t.Context(), supervisor.Spec{Name: "t"})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { sup.Stop(); sup.Wait() }()
	_, err = sup.StartChild(h.t.Context(), supervisor.ChildSpec{ID: "a", Restart: supervisor.Temporary, Start: start})
	return err
}

// end has a run end.
func (h *callsHarness) end(incarnation uint64, exit supervisor.Exit) {
	reportedRun{exitedRun(exit), h.Manager, "t/a", incarnation}.Wait()
}

// check checks what was counted since the last check.
func (h *callsHarness) check(what string, incarnation uint64, models ...string) {
	h.t.Helper()
	r, got := h.ledger.last()
	h.want.Incarnation = incarnation
	if h.want.Chain.Equal(r.Chain) {
		r.Chain = h.want.Chain
	}
	if !reflect.DeepEqual(r, h.want) || !reflect.DeepEqual(got, models) {
		h.t.Errorf("%s: %+v, calls %q", what, r, got)
	}
}

// none fails the test if something was counted, or logged.
func (h *callsHarness) none(what string) {
	h.t.Helper()
	if len(h.ledger.counted)+len(h.logged) != 0 {
		h.t.Errorf("%s: %+v, %v", what, h.ledger.counted, h.logged)
	}
}

var (
	chain    = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	oneOfTwo = callfile.Records{
		Fired: chain, Chain: chain, Task: "issue 7", Run: "r1", Dropped: 2, Calls: []agentcli.Record{{Model: "one"}},
		Running: &agentcli.Record{Model: "two"},
	}
	firstRun = cost.Run{Agent: "t/a", ID: "r1", Task: "issue 7", Chain: chain, Dropped: 2}
)

// What is known of the calls of a run reaches the ledger when it ends, when the daemon starts and before the next run
// begins, and the next request has what the ledger knows.
func TestCalls(t *testing.T) {
	t.Parallel()
	h := newCallsHarness(t)
	h.want = firstRun
	h.add(false)
	h.none("it has never run")
	h.files.has(t, oneOfTwo)
	h.again()
	h.add(true) // the call may go on
	h.check("the daemon starts while it runs", 0, "one")
	h.again()
	h.add(false)
	h.check("it has ended unseen", 0, "one", "two")
	reportedRun{detachedRun{exitedRun{Kind: supervisor.ShutDown}}, h.Manager, "t/a", 3}.Wait()
	h.none("it still runs")
	h.end(3, supervisor.Exit{Kind: supervisor.ShutDown})
	h.check("it was stopped", 3, "one", "two")

	h.ledger.fails = errors.New("the disk is full")
	if err := h.run(); h.started != 0 || !errors.As(err, new(*supervisor.RetryError)) {
		t.Errorf("the next run removes what is not counted: %v", err)
	}
	h.ledger.fails = nil
	h.again()
	h.add(true)
	a := h.of("t/a")
	a.request.Fired, a.request.Chain, a.request.Task = chain, chain, "the task"
	h.ledger.last()
	if err := h.run(); err != nil || h.started != 1 {
		t.Errorf("started %d times: %v", h.started, err)
	}
	h.check("before the next run", 0, "one", "two")
	if _, err := h.files.ReadFile(t.Context(), "t/a", callfile.Name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is known of the run before is there: %v", err)
	}
	q, err := runner.Parse(h.files.files[runner.RequestName])
	sessions := map[string]agentcli.Models{"s": {"m": {Input: 3}}}
	if err != nil || q.Spent != 42 || !reflect.DeepEqual(q.Sessions, sessions) || q.Task != "the task" ||
		q.Aidefile != "/Aidefile" || !q.Chain.Equal(chain) {
		t.Errorf("%+v, %v", q, err)
	}

	h.files.has(t, oneOfTwo)
	h.end(4, supervisor.Exit{Kind: supervisor.Normal})
	h.check("a success", 4, "one", "two")
	if q := a.currentRequest(); !q.Chain.After(chain) || !q.Fired.Equal(chain) || !a.unsaved {
		t.Errorf("the chain goes on: %+v", q)
	}
	h.none("all is well")
	for _, damaged := range []string{"", "{", "[]", "null", `{"calls": 7}`, "\x00"} {
		h.files.files[callfile.Name] = []byte(damaged)
		if err := h.run(); err != nil || len(h.ledger.counted) != 0 {
			t.Errorf("what cannot be read holds up the agent: %q: %v", damaged, err)
		}
	}
}

// A run of a daemon of an earlier version does not say to which chain it belongs.
func TestCallsOfEarlierVersion(t *testing.T) {
	t.Parallel()
	h := newCallsHarness(t)
	old := oneOfTwo
	old.Chain, old.Task = time.Time{}, ""
	h.files.has(t, old)
	text, err := runner.RunRequest{Fired: chain, Chain: chain, Issue: 7}.Text()
	if err != nil {
		t.Fatal(err)
	}
	h.files.files[runner.RequestName] = text
	h.want = firstRun
	h.add(true)
	h.check("taken over", 0, "one")
	h.end(2, supervisor.Exit{Kind: supervisor.ShutDown})
	h.check("its end", 2, "one", "two")
}

// A run was on another machine.
func TestCallsElsewhere(t *testing.T) {
	t.Parallel()
	silent := fmt.Errorf("%w: node b does not answer", runtime.ErrUnknown)
	lost := fmt.Errorf("%w: node b", runtime.ErrNodeLost)
	h := newCallsHarness(t)
	h.want = firstRun
	h.files.away = true
	h.files.has(t, oneOfTwo)
	h.add(true)
	h.none("it goes on, and its node may not answer")
	if all := h.Calls("t/a"); len(all.Calls) != 2 {
		t.Errorf("%+v", all)
	}

	// For a node that does not answer the next run waits, since the node may answer later.
	h.files.fail(silent)
	if all := h.Calls("t/a"); len(all.Calls) != 2 || len(h.logged) != 0 {
		t.Errorf("what was known is forgotten: %+v, %v", all, h.logged)
	}
	h.end(3, supervisor.Exit{Kind: supervisor.Failure})
	retry := new(supervisor.RetryError)
	if err := h.run(); !errors.As(err, &retry) || time.Until(retry.At) > readAgain || h.started != 0 ||
		!strings.Contains(err.Error(), "what its last run has used is not known: ") {
		t.Errorf("%v", err)
	}
	info, _ := h.API("t/a", supervisor.ChildInfo{})
	if all := strings.Join(info.Evidence(), "\n"); !strings.Contains(all, "only in part: "+silent.Error()) {
		t.Errorf("explain: %q", all)
	}
	if len(h.ledger.counted) != 0 {
		t.Errorf("%+v", h.ledger.counted)
	}
	h.files.fail(nil)
	h.logged = nil
	if err := h.run(); err != nil {
		t.Error(err)
	}
	h.check("its node answers again", 0, "one", "two")
	if info, _ := h.API("t/a", supervisor.ChildInfo{}); info.Unread != "" {
		t.Errorf("%+v", info)
	}

	// A node that is lost will not answer: what was known is counted.
	h.files.has(t, oneOfTwo)
	h.Calls("t/a")
	h.files.fail(lost)
	h.end(4, supervisor.Exit{Kind: supervisor.Lost})
	h.check("its node is lost", 4, "one", "two")
	if info, _ := h.API("t/a", supervisor.ChildInfo{}); !strings.Contains(info.Unread, "node b") {
		t.Errorf("%+v", info)
	}
	if err := h.run(); err != nil {
		t.Error(err)
	}
	h.check("once more, which the ledger knows", 0, "one", "two")
	h.end(5, supervisor.Exit{Kind: supervisor.Lost})
	h.none("the next run was lost before anything was known of it")

	// Another daemon finds the agent at rest, and counts what it has not seen.
	h.files.fail(nil)
	h.files.has(t, oneOfTwo)
	h.again()
	h.add(false)
	h.check("it has ended unseen", 0, "one", "two")
}
