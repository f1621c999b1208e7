package budget

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// declared are agents without supervisors, and the tasks that they work at.
type declared struct {
	mu      sync.Mutex
	budgets []spec.Budget
	working map[string]string // task by path
	opened  []string
}

func (d *declared) Budgeted() Fleet {
	claude := &spec.Agent{Command: []string{"claude"}}
	return Fleet{Agents: map[string]*spec.Agent{"t/a": claude, "t/b": claude, "t/s": {Command: []string{"sh"}}},
		Budgets: d.budgets}
}

func (d *declared) Locate(string) (*supervisor.Supervisor, string, error) {
	return nil, "", supervisor.ErrNotFound
}

func (d *declared) Worked(path string, _ uint64) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.working[path]
}

func (d *declared) Claims(_ context.Context, path, id string) bool { return d.Worked(path, 0) == id }

func (d *declared) Unpark(_ context.Context, id, _ string) error {
	d.opened = append(d.opened, id)
	return nil
}

// daemon is a Manager with its ledger.
type daemon struct {
	*Manager
	t         *testing.T
	fleet     *declared
	ledger    *cost.Ledger
	log       *event.Log
	questions *question.Service
	killed    map[string]string // why, by path
	close     func()
}

// open returns the next daemon over a store.
func open(t *testing.T, s store.Store, budgets ...spec.Budget) *daemon {
	t.Helper()
	log, err := event.Open(event.Config{Store: s, Epoch: func() string { return "e" }, Logger: slog.Default()})
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, log: log, killed: map[string]string{}, fleet: &declared{budgets: budgets,
		working: map[string]string{}}}
	d.questions, err = question.OpenService(t.Context(), question.Options{Store: s,
		IsAgent: func(string) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	run := func(do func(context.Context)) { go do(ctx) }
	d.ledger = cost.New(cost.Options{
		Store: s, Logger: slog.Default(), Go: run,
		Task:    func(path string, incarnation uint64) (string, int) { return d.fleet.Worked(path, incarnation), 0 },
		Owner:   func(string) (string, string) { return "", "main" },
		Counted: func(ctx context.Context, path string, incarnation uint64) { d.Counted(ctx, path, incarnation) },
	})
	d.Manager = New(Options{
		Store: s, Log: log, Logger: slog.Default(), Agents: d.fleet, Ledger: d.ledger, Changed: func() {}, Go: run,
		Tasks: func() Tasks { return d.fleet }, Account: func(string) string { return "main" },
	})
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(d.Run)
	d.close = func() {
		cancel()
		d.questions.Close()
		if err := log.Close(context.Background()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	}
	return d
}

// start starts an incarnation of an agent.
func (d *daemon) start(path string, incarnation uint64) {
	d.t.Helper()
	if err := d.Admit(path, incarnation); err != nil {
		d.t.Fatalf("%s does not start: %v", path, err)
	}
	d.adopt(path, incarnation, time.Now())
}

func (d *daemon) adopt(path string, incarnation uint64, began time.Time) {
	d.fleet.mu.Lock()
	delete(d.killed, path)
	d.fleet.mu.Unlock()
	d.Begin(path, incarnation, began, func(why error) bool {
		d.fleet.mu.Lock()
		defer d.fleet.mu.Unlock()
		d.killed[path] = why.Error()
		return true
	})
	synctest.Wait()
}

// kills returns why incarnations were killed, by path.
func (d *daemon) kills() map[string]string {
	d.fleet.mu.Lock()
	defer d.fleet.mu.Unlock()
	return maps.Clone(d.killed)
}

// spends is the record of a run that has used so many tokens so far.
func spends(n int64) agentcli.Record {
	return agentcli.Record{CLI: agentcli.Claude, Tokens: &n, Usage: agentcli.Models{"m": {Output: n}}}
}

// end ends an incarnation, as the daemon does, and returns its exit.
func (d *daemon) end(path string, incarnation uint64, life string, calls ...agentcli.Record) supervisor.Exit {
	d.t.Helper()
	d.ledger.Ended(path, incarnation, life, d.beganOf(path), time.Now(), calls...)
	killed := supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Signal: syscall.SIGTERM}}
	exit, _ := d.Exit(path, incarnation, killed)
	d.Ended(path, incarnation)
	synctest.Wait()
	return exit
}

func (d *daemon) beganOf(path string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.runs[path]; r != nil {
		return r.began
	}
	return time.Time{}
}

func (d *daemon) all(typ event.Type) (n int) {
	d.t.Helper()
	if err := d.log.Sync(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	for e, err := range d.log.Events(d.t.Context(), event.Query{}) {
		if err != nil {
			d.t.Fatal(err)
		}
		if e.Type == typ {
			n++
		}
	}
	return n
}

// waits expects an exit or start after which the agent waits until a time.
func waits(t *testing.T, err error, text string, at time.Time) {
	t.Helper()
	retry, ok := errors.AsType[*supervisor.RetryError](err)
	if !ok || !strings.Contains(err.Error(), text) || !retry.At.Equal(at) {
		t.Errorf("%v, expected %q, at %v", err, text, at)
	}
}

// A run in progress that reaches a budget is killed at once, and the others with it. All wait until midnight, under the
// next daemon, too; then the budget has room again.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		night := spec.Budget{Name: "night", Per: spec.PerDay, Tokens: 100, Dollars: 5}
		d := open(t, s, night)
		d.start("t/a", 1)
		d.start("t/b", 1)
		d.Progress("t/a", 1, spends(60))
		d.Progress("t/b", 7, spends(1000)) // not this one
		d.Progress("t/b", 1, spends(39))
		if len(d.kills()) != 0 {
			t.Fatalf("%v", d.kills())
		}
		d.Progress("t/b", 1, spends(40))
		if len(d.kills()) != 2 || d.kills()["t/a"] != "budget night: 100 of 100 tokens today" {
			t.Fatalf("%v", d.kills())
		}
		until := midnight(time.Now())
		exit := d.end("t/a", 1, "x", spends(62))
		waits(t, exit.Err, "budget night: 102 of 100 tokens today; waits until 00:00, or: coppice budget raise night",
			until)
		waits(t, d.end("t/b", 1, "y", spends(41)).Err, "103 of 100 tokens", until)
		waits(t, d.Admit("t/a", 2), "103 of 100 tokens", until)
		d.Ask(t.Context(), d.questions)
		d.Ask(t.Context(), d.questions)
		if all := d.questions.List("", true); len(all) != 1 || all[0].From != "budget/night" ||
			all[0].Text != "budget night: 103 of 100 tokens today. What it covers waits until 00:00. Answer raise to allow as much again." {
			t.Errorf("%+v", all)
		}
		if d.all(event.BudgetReached) != 1 {
			t.Errorf("%d events", d.all(event.BudgetReached))
		}
		d.close()
		d = open(t, s, night)
		waits(t, d.Admit("t/a", 2), "103 of 100 tokens", until)
		b := d.Budgets()[0]
		if b.State != Reached || b.Limits[0].Used != 103 || b.Limits[1].Unknown != 2 || !slices.Equal(b.Waiting,
			[]string{"t/a"}) ||
			!slices.Equal(b.Unknown, []string{"t/s: tokens, dollars"}) {
			t.Errorf("%+v", b)
		}
		if d.all(event.BudgetReached) != 1 {
			t.Errorf("%d events", d.all(event.BudgetReached))
		}
		time.Sleep(time.Until(until) + time.Second)
		synctest.Wait()
		if b := d.Budgets()[0]; b.State != Open || b.Limits[0].Used != 0 || d.all(event.BudgetOpened) != 1 {
			t.Errorf("%+v", b)
		}
		d.start("t/a", 2)
		d.Ask(t.Context(), d.questions)
		if all := d.questions.List("", true); all[0].State != question.Withdrawn {
			t.Errorf("%+v", all)
		}
		d.close()
	})
}

// A person raises a budget: as much again, also for the next daemon, and no more.
func TestRaise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		night := spec.Budget{Name: "night", Per: spec.PerDay, Tokens: 100}
		d := open(t, s, night)
		d.start("t/a", 1)
		d.Progress("t/a", 1, spends(100))
		if err := d.Raise(t.Context(), "night"); err != nil {
			t.Fatal(err)
		}
		// It was killed before, and goes on at once.
		exit := d.end("t/a", 1, "x", spends(100))
		waits(t, exit.Err, "budget night: 100 of 100 tokens today", time.Now())
		d.close()
		d = open(t, s, night)
		d.start("t/a", 2)
		d.Progress("t/a", 2, spends(99))
		if len(d.kills()) != 0 || d.Budgets()[0].Raised != 1 || d.all(event.BudgetRaised) != 1 {
			t.Errorf("%v, %+v", d.kills(), d.Budgets())
		}
		d.Progress("t/a", 2, spends(100))
		if d.kills()["t/a"] != "budget night: 200 of 200 tokens today" {
			t.Errorf("%v", d.kills())
		}
		d.Ask(t.Context(), d.questions)
		for i, answer := range []string{"raise", "leave"} {
			q := d.questions.List("", false)[0]
			if _, err := d.questions.Answer(t.Context(), q.ID, answer, "ann"); err != nil {
				t.Fatal(err)
			}
			d.Ask(t.Context(), d.questions)
			if open := d.Budgets()[0].State == Open; open != (i == 0) {
				t.Errorf("answered %s: %+v", answer, d.Budgets())
			}
			time.Sleep(time.Second)
			d.Progress("t/a", 2, spends(500))
			d.Ask(t.Context(), d.questions)
		}
		if all := d.questions.List("", true); len(all) != 2 {
			t.Errorf("%+v", all)
		}
		if err := d.Raise(t.Context(), "nigth"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(),
			`did you mean "night"?`) {
			t.Error(err)
		}
		d.close()
	})
}

// A budget per run parks the agent until a person acts. A limit of time ends a run of any command.
func TestPerRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		each := spec.Budget{Name: "each", Of: []string{"s", "a"}, Per: spec.PerRun, Time: time.Hour}
		d := open(t, s, each)
		d.start("t/s", 1)
		d.start("t/b", 1)
		if !d.Covers("t/s") || d.Covers("t/b") {
			t.Error("what it covers")
		}
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if len(d.kills()) != 0 {
			t.Fatalf("%v", d.kills())
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		const why = "budget each: 1h00m of 1h00m time in a run"
		if len(d.kills()) != 1 || d.kills()["t/s"] != why {
			t.Fatalf("%v", d.kills())
		}
		waits(t, d.end("t/s", 1, "x").Err, why+"; waits until a person has acted: coppice budget raise each",
			time.Now().Add(recheck))
		d.start("t/a", 1)
		d.close()
		d = open(t, s, each)
		waits(t, d.Admit("t/s", 2), why, time.Now().Add(recheck))
		// It was killed by the last daemon, which has died before it heard of the end.
		exit, ok := d.Exit("t/s", 1, supervisor.Exit{Kind: supervisor.Failure,
			Err: &proc.ExitError{Signal: syscall.SIGKILL}})
		if waits(t, exit.Err, why, time.Now().Add(recheck)); !ok {
			t.Error("not its exit")
		}
		if _, ok := d.Exit("t/s", 1, supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}); ok {
			t.Error("an exit of its own")
		}
		d.adopt("t/a", 1, time.Now().Add(-2*time.Hour)) // it has begun under the last daemon
		if len(d.kills()) != 1 {
			t.Errorf("%v", d.kills())
		}
		exit, ok = d.Exit("t/a", 1, supervisor.Exit{Kind: supervisor.Failure,
			Err: &proc.ExitError{Signal: syscall.SIGTERM}})
		if waits(t, exit.Err, "2h00m of 1h00m time in a run", time.Now().Add(recheck)); !ok {
			t.Error("not its exit")
		}
		if _, ok := d.Exit("t/b", 1, supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}); ok {
			t.Error("the exit of another")
		}
		d.Ended("t/a", 1)
		if b := d.Budgets()[0]; !slices.Equal(b.Parked, []string{"t/a", "t/s"}) || b.State != Reached {
			t.Errorf("%+v", b)
		}
		if err := d.Raise(t.Context(), "each"); err != nil {
			t.Fatal(err)
		}
		d.start("t/s", 3)
		if b := d.Budgets()[0]; len(b.Parked) != 0 || b.State != Open {
			t.Errorf("%+v", b)
		}
		if err := d.Raise(t.Context(), "each"); !errors.Is(err, ErrNothing) {
			t.Error(err)
		}
		d.close()
	})
}

// A budget per task ends the run, and parks the task until a person raises it. The agent goes on at once.
func TestPerTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		b := spec.Budget{Name: "task", Per: spec.PerTask, Tokens: 100, Runs: 5}
		d := open(t, s, b)
		run := func(incarnation uint64, tokens int64) (park string) {
			t.Helper()
			d.start("t/a", incarnation)
			d.fleet.mu.Lock()
			d.fleet.working["t/a"] = "t-1"
			d.fleet.mu.Unlock()
			d.Look()
			synctest.Wait()
			d.Progress("t/a", incarnation, spends(tokens))
			exit := d.end("t/a", incarnation, string(rune('a'+incarnation)), spends(tokens))
			if why, killed := d.kills()["t/a"]; killed {
				waits(t, exit.Err, why, time.Now())
			}
			return d.ParkTask(t.Context(), "t/a", incarnation)
		}
		if why := run(1, 60); why != "" || len(d.kills()) != 0 {
			t.Errorf("%q, %v", why, d.kills())
		}
		if why := run(2, 50); why != "budget task: 110 of 100 tokens at t-1" || len(d.kills()) != 1 {
			t.Errorf("%q, %v", why, d.kills())
		}
		if i := d.Budgets()[0]; i.State != Reached || !slices.Equal(i.Tasks, []string{"t-1"}) {
			t.Errorf("%+v", i)
		}
		d.close()
		d = open(t, s, b)
		if err := d.Raise(t.Context(), "task"); err != nil || !slices.Equal(d.fleet.opened, []string{"t-1"}) {
			t.Errorf("%v, %v", err, d.fleet.opened)
		}
		if why := run(3, 80); why != "" || len(d.kills()) != 0 {
			t.Errorf("%q, %v", why, d.kills())
		}
		d.fleet.working["t/a"] = ""
		if why := d.ParkTask(t.Context(), "t/a", 3); why != "" {
			t.Error(why)
		}
		d.close()
	})
}

// What was used counts until the ledger has it, also where that takes longer than the end.
func TestUncounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		d := open(t, s, spec.Budget{Name: "night", Per: spec.PerDay, Tokens: 100})
		d.start("t/a", 1)
		d.Progress("t/a", 1, spends(100))
		d.Ended("t/a", 1)
		synctest.Wait()
		if b := d.Budgets()[0]; b.State != Reached || b.Limits[0].Used != 100 {
			t.Errorf("%+v", b)
		}
		d.Counted(t.Context(), "t/a", 1)
		if b := d.Budgets()[0]; b.State != Open || b.Limits[0].Used != 0 {
			t.Errorf("%+v", b)
		}
		if err := d.Admit("t/b", 1); err != nil {
			t.Error(err)
		}
		d.Ended("t/b", 1) // it could not start
		d.fleet.budgets = []spec.Budget{{Name: "other", Per: spec.PerDay, Runs: 1}}
		d.Apply()
		synctest.Wait()
		d.start("t/a", 2)
		waits(t, d.Admit("t/b", 2), "budget other: 1 of 1 runs today", midnight(time.Now()))
		d.fleet.budgets[0].Runs = 2
		d.Apply()
		if err := d.Admit("t/b", 2); err != nil {
			t.Error(err)
		}
		d.close()
	})
}
