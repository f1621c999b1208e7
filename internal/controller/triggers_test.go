package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/api"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

var errIdle = errors.New("watchdog: nothing heard for 30s")

// aideTree is treeWith an Aidefile that has a policy and schedules.
func aideTree(t testing.TB, p aidefile.Policy, crons ...string) *spec.Tree {
	t.Helper()
	f := aidefile.Default()
	f.Persona.Name, f.Policy = "a", p
	if len(crons) > 0 {
		f.Triggers = nil
	}
	for _, expr := range crons {
		s, err := cron.Parse(expr, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		f.Triggers = append(f.Triggers, aidefile.Trigger{Kind: aidefile.Cron, Schedule: s})
	}
	return treeWith(t, f)
}

// treeWith is a tree with an agent a of an Aidefile, and a plain one beside it.
func treeWith(t testing.TB, f aidefile.File) *spec.Tree {
	t.Helper()
	a := &spec.Agent{Name: "a", Dir: "/", Aide: &aidefile.Agent{Path: "/Aidefile", File: f, Settings: aidefile.DefaultSettings("/")}}
	a.Restart, a.Backoff, a.Limit = f.Policy.Child(0)
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, []spec.Decl{{Agent: a}, {Agent: &spec.Agent{Name: "plain", Dir: "/", Command: []string{"plain"}}}})
	if problems != nil {
		t.Fatal(problems)
	}
	tree.Patrol = spec.DefaultPatrol()
	return tree
}

// A run that was ended as unhealthy has not reported how it ended.
func TestLastStatus(t *testing.T) {
	const status = "try 1 of 4, 100 tokens left"
	reported := &agent.AnnotatedError{Exit: &proc.ExitError{Code: 1}, Status: status}
	for _, tt := range []struct {
		what string
		err  error
		want string
	}{
		{"it reports", reported, status},
		{"it reports nothing", &proc.ExitError{Code: 1}, ""},
		{"unhealthy", &agent.UnhealthyError{Reason: errIdle, Exit: reported}, ""},
	} {
		if got := lastStatus(tt.err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

var (
	goodEnd = supervisor.Exit{Kind: supervisor.Normal}
	badEnd  = supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("failed")}
)

// uptimeMonitor is an agent that a schedule starts and that is restarted after each run.
const uptimeMonitor = `[persona]
name = "uptime-monitor"
[trigger]
on = "cron:*/5 * * * *" # every 5 minutes
[daemon]
restart = "always" # respawn on success and failure
max_restarts = 100
backoff = "exponential"
`

// The schedule starts it once. Then it is kept running, through two hours of failures, which
// are too few to give it up.
func TestADayOfAMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := aidefileconfig.Parse("Aidefile", []byte(uptimeMonitor))
		if err != nil {
			t.Fatal(err)
		}
		run, from, until := 20*time.Second, 8*time.Hour, 10*time.Hour
		s := newStage()
		s.quiet = true
		s.plays("t/a", part{lives: run, exit: goodEnd})
		midnight := time.Now()
		p := raise(t, s, memory.New(), treeWith(t, *f))
		time.Sleep(from - time.Since(midnight))
		s.plays("t/a", part{lives: run, exit: badEnd})
		time.Sleep(until - from)
		s.plays("t/a", part{lives: run, exit: goodEnd})
		time.Sleep(24*time.Hour - time.Minute - until)
		runs, state := s.starts("t/a"), p.state("t/a")
		fired, skipped, gaveUp := len(p.happened(event.AgentFired)), len(p.happened(event.AgentFireSkipped)), len(p.happened(event.AgentGaveUp))
		p.close()

		expected, failures, longest := 0, 0, time.Duration(0)
		for at := 5 * time.Minute; at < 24*time.Hour-time.Minute; expected++ {
			sleep := time.Second
			if at >= from && at < until {
				sleep = min(time.Second<<failures, 300*time.Second)
				failures++
			} else {
				failures = 0
			}
			longest = max(longest, sleep)
			at += run + sleep
		}
		if longest != 300*time.Second || runs != expected {
			t.Errorf("%d runs, expected %d; the longest sleep is %v", runs, expected, longest)
		}
		if fired != 1 || skipped != 286 || gaveUp != 0 || state == supervisor.GivenUp {
			t.Errorf("fired %d times, skipped %d, given up %d times, %v", fired, skipped, gaveUp, state)
		}
	})
}

// Runs are started by the schedule and the policy alone, not by reconciliation, which goes on
// all day.
func TestADayOfAnAidefile(t *testing.T) {
	for _, c := range []struct {
		name           string
		restart        supervisor.Restart
		exit           supervisor.Exit
		least, most    int // runs
		fired, skipped int
		gaveUp         int
	}{
		{"always", supervisor.Permanent, goodEnd, 4080, 4100, 1, 286, 0},
		{"on-failure", supervisor.Transient, goodEnd, 287, 287, 287, 0, 0},
		{"never", supervisor.Temporary, goodEnd, 287, 287, 287, 0, 0},
		{"never, and it fails", supervisor.Temporary, badEnd, 287, 287, 287, 0, 0},
		// 20 s each, with 1, 2, 4, ... 256, 300 s between them: given up in its 11th
		// run after some 17 minutes, and then one run for each firing.
		{"on-failure, and it fails", supervisor.Transient, badEnd, 11 + 287 - 5, 11 + 287 - 4, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				s.quiet = true
				s.plays("t/a", part{lives: 20 * time.Second, exit: c.exit})
				p := raise(t, s, memory.New(), aideTree(t, aidefile.Policy{Restart: c.restart, MaxRestarts: 10, Backoff: supervisor.Exponential}, "*/5 * * * *"))
				time.Sleep(24*time.Hour - time.Minute)
				runs, plain := p.stage.starts("t/a"), p.stage.starts("t/plain")
				fired, skipped := len(p.happened(event.AgentFired)), len(p.happened(event.AgentFireSkipped))
				p.close()
				if runs < c.least || runs > c.most {
					t.Errorf("%d runs, expected %d to %d", runs, c.least, c.most)
				}
				if c.fired > 0 && (fired != c.fired || skipped != c.skipped) {
					t.Errorf("fired %d times and skipped %d, expected %d and %d", fired, skipped, c.fired, c.skipped)
				}
				if fired+skipped != 287 || plain != 1 {
					t.Errorf("%d firings, and %d starts of the plain agent", fired+skipped, plain)
				}
			})
		})
	}
}

// The next controller starts no run by itself, and restarts count from 0.
func TestAidefileAfterTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, db := newStage(), memory.New()
		s.plays("t/a", part{lives: time.Second, exit: badEnd})
		tree := func() *spec.Tree {
			return aideTree(t, aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 1, Backoff: supervisor.Fixed})
		}
		p := raise(t, s, db, tree())
		if err := p.triggers.Fire(context.Background(), "a", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n, st := s.starts("t/a"), p.state("t/a"); n != 2 || st != supervisor.GivenUp {
			t.Fatalf("%d runs, %v", n, st)
		}
		p.close()
		p = raise(t, s, db, tree())
		time.Sleep(time.Hour)
		if n, st := s.starts("t/a"), p.state("t/a"); n != 2 || st != supervisor.Stopped {
			t.Errorf("in its next life: %d runs, %v", n, st)
		}
		if err := p.triggers.Fire(context.Background(), "t/a", "again"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n, st := s.starts("t/a"), p.state("t/a"); n != 4 || st != supervisor.GivenUp {
			t.Errorf("after a firing: %d runs, %v", n, st)
		}
		p.close()
	})
}

// A policy that changes while a run is in progress decides about its end.
func TestAidefilePolicyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/a", part{lives: time.Minute, exit: badEnd})
		p := raise(t, s, memory.New(), aideTree(t, aidefile.Single()))
		defer p.close()
		if err := p.triggers.Fire(context.Background(), "a", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := s.on("t/a")
		p.becomes(aideTree(t, aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 2, Backoff: supervisor.Fixed}, "0 0 1 1 *"))
		if s.on("t/a") != before || before == nil {
			t.Fatal("the run was not left alone")
		}
		n, err := p.status.Nodes(context.Background(), "a")
		if err != nil || !slices.Equal(n[0].Aide.Triggers, []string{"cron:0 0 1 1 *"}) || n[0].Aide.Restart != "on-failure" {
			t.Errorf("%+v, %v", n, err)
		}
		time.Sleep(time.Hour)
		if n, st := s.starts("t/a"), p.state("t/a"); n != 3 || st != supervisor.GivenUp {
			t.Errorf("%d runs, %v", n, st)
		}
		p.becomes(treeOf(t, "plain")) // and it is gone
		if err := p.triggers.Fire(context.Background(), "a", ""); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

// A restart that is pending is for the policy that is in force when its time comes.
func TestAidefilePolicyChangesInASleep(t *testing.T) {
	with := func(r supervisor.Restart, most int) aidefile.Policy {
		return aidefile.Policy{Restart: r, MaxRestarts: most, Backoff: supervisor.Fixed}
	}
	for name, c := range map[string]struct {
		policy aidefile.Policy
		exit   supervisor.Exit
		next   aidefile.Policy
		runs   int // more; the count is that of the new limit
	}{
		"never":                            {aidefile.Kept(), badEnd, aidefile.Single(), 0},
		"on-failure, after a failure":      {with(supervisor.Permanent, 1), badEnd, with(supervisor.Transient, 1), 1},
		"on-failure, after a success":      {with(supervisor.Permanent, 1), goodEnd, aidefile.Kept(), 0},
		"always":                           {aidefile.Kept(), badEnd, with(supervisor.Permanent, 1), 2},
		"another count of the same policy": {with(supervisor.Transient, 1), badEnd, with(supervisor.Transient, 2), 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				s.plays("t/a", part{lives: time.Second, exit: c.exit})
				p := raise(t, s, memory.New(), aideTree(t, c.policy))
				defer p.close()
				if err := p.triggers.Fire(context.Background(), "a", ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(1500 * time.Millisecond)
				if p.state("t/a") != supervisor.Restarting {
					t.Fatal(p.state("t/a"))
				}
				p.becomes(aideTree(t, c.next))
				s.plays("t/a", part{lives: time.Second, exit: badEnd})
				time.Sleep(time.Hour)
				if n := s.starts("t/a") - 1; n != c.runs {
					t.Errorf("%d more runs, expected %d", n, c.runs)
				}
			})
		})
	}
}

// A policy that changes after an agent was given up starts no run: that is for its triggers. They find it as it was at first.
func TestAidefilePolicyChangesAfterItGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		next aidefile.Policy
		runs int // by the next firing
	}{
		"more restarts":   {aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 3, Backoff: supervisor.Fixed}, 4},
		"fewer restarts":  {aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 1, Backoff: supervisor.Fixed}, 2},
		"another backoff": {aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 2, Backoff: supervisor.Linear}, 3},
		"always":          {aidefile.Policy{Restart: supervisor.Permanent, MaxRestarts: 2, Backoff: supervisor.Fixed}, 3},
		"never":           {aidefile.Single(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage()
				s.plays("t/a", part{lives: time.Second, exit: badEnd})
				p := raise(t, s, memory.New(), aideTree(t, aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 2, Backoff: supervisor.Fixed}))
				defer p.close()
				fire := func() {
					if err := p.triggers.Fire(context.Background(), "a", ""); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
				}
				if fire(); s.starts("t/a") != 3 || p.state("t/a") != supervisor.GivenUp {
					t.Fatalf("%d runs, %v", s.starts("t/a"), p.state("t/a"))
				}
				p.becomes(aideTree(t, c.next))
				time.Sleep(time.Hour)
				n, err := p.status.Nodes(context.Background(), "")
				if err != nil || s.starts("t/a") != 3 || n[0].InWindow != 0 {
					t.Errorf("after the change: %d runs more, the root counts %d, %v", s.starts("t/a")-3, n[0].InWindow, err)
				}
				if fire(); s.starts("t/a") != 3+c.runs {
					t.Errorf("the next firing led to %d runs, expected %d", s.starts("t/a")-3, c.runs)
				}
			})
		})
	}
}

// What is done to a whole tree starts no run.
func TestAidefileAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := raise(t, newStage(), memory.New(), aideTree(t, aidefile.Single()))
		defer p.close()
		ctx := context.Background()
		for _, action := range []control.Action{control.Stop, control.Start, control.Restart, control.Suspend, control.Resume, control.Reset} {
			if _, err := p.control.Act(ctx, "", action); err != nil {
				t.Errorf("%s: %v", action, err)
			}
			time.Sleep(time.Minute)
			want := supervisor.Stopped
			if action == control.Suspend {
				want = supervisor.Suspended
			}
			nodes, err := p.status.Nodes(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			if n, st := p.stage.starts("t/a"), nodes[0].State; n != 0 || st != want.String() {
				t.Errorf("after %s: %d runs, %v", action, n, st)
			}
		}
		if n := p.stage.starts("t/plain"); n != 4 {
			t.Errorf("the plain agent was started %d times", n)
		}
		if _, err := p.control.Act(ctx, "a", control.Start); err != nil {
			t.Fatal(err)
		}
		if _, err := p.control.Act(ctx, "", control.Restart); err != nil {
			t.Fatal(err)
		}
		if n := p.stage.starts("t/a"); n != 2 {
			t.Errorf("%d runs, expected that of the start and that of the restart", n)
		}
	})
}

// What has no Aidefile has no triggers.
func TestFireOfAPlainAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "plain"))
		defer p.close()
		if err := p.triggers.Fire(context.Background(), "plain", ""); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "t/plain has no Aidefile") {
			t.Errorf("%v", err)
		}
	})
}

// A run that is pending when a person stops its agent does not begin when the agent is resumed.
func TestStopForgetsThePendingRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/a", part{lives: time.Second, exit: badEnd})
		p := raise(t, s, memory.New(), aideTree(t, aidefile.Policy{Restart: supervisor.Transient, MaxRestarts: 10, Backoff: supervisor.Exponential}))
		defer p.close()
		if err := p.triggers.Fire(context.Background(), "a", ""); err != nil {
			t.Fatal(err)
		}
		for s.starts("t/a") < 3 || p.state("t/a") != supervisor.Restarting {
			time.Sleep(100 * time.Millisecond)
		}
		for _, action := range []control.Action{control.Stop, control.Resume} {
			if _, err := p.control.Act(context.Background(), "t/a", action); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if n, st := s.starts("t/a"), p.state("t/a"); n != 3 || st != supervisor.Stopped {
			t.Errorf("%d runs, %v", n, st)
		}
	})
}
