package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
)

// t0 is when the tests begin.
var t0 = time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)

// noJitter has no random part.
func noJitter(time.Duration) time.Duration { return 0 }

// admit starts an agent, if it may start, or else returns when it has to ask again.
func admit(p *Pool, path string, now time.Time) (again time.Time, ok bool) {
	if !p.admits(path, now) {
		return p.asksAgain(now), false
	}
	p.admit(path, now)
	return time.Time{}, true
}

func met(o outcome.ObstacleKind, reset time.Time) agentcli.Record {
	r := agentcli.Record{CLI: agentcli.Claude}
	r.Verdict = agentcli.Verdict{Kind: outcome.Deferred, Obstacle: o, Reason: "no", Reset: reset, ResetFrom: agentcli.FromStream}
	return r
}

// Where no reset is known, the delays between tries grow up to an hour.
func TestGrowingTries(t *testing.T) {
	p, now := Pool{State: Open}, t0
	for i, expected := range []time.Duration{5, 10, 20, 40, 60, 60, 60, 60, 60, 60, 60} {
		p.close("t/a", met(outcome.UsageLimit, time.Time{}), now, noJitter)
		if d := p.Until.Sub(now); p.State != Parked || d != expected*time.Minute || p.Tries != i {
			t.Fatalf("try %d: %s for %v, expected %d minutes (%+v)", i, p.State, d, expected, p)
		}
		now = p.Until
		if _, ok := admit(&p, "t/a", now); !ok || p.State != Probing {
			t.Fatalf("try %d is not admitted: %+v", i, p)
		}
	}
}

// What others report who had begun before changes nothing, unless the limit ends later.
func TestReportsOfOthers(t *testing.T) {
	p := Pool{State: Open}
	p.close("t/a", met(outcome.UsageLimit, t0.Add(time.Hour)), t0, noJitter)
	before := p
	for _, reset := range []time.Time{{}, t0.Add(time.Minute), t0.Add(time.Hour), t0.Add(-time.Hour)} {
		if p.close("t/b", met(outcome.UsageLimit, reset), t0.Add(time.Second), noJitter); p != before {
			t.Errorf("a limit until %v: %+v, before %+v", reset, p, before)
		}
	}
	week := t0.Add(7 * 24 * time.Hour)
	if p.close("t/c", met(outcome.UsageLimit, week), t0.Add(time.Second), noJitter); p.Until != week || p.By != "t/c" || p.Since != t0 {
		t.Errorf("a longer limit: %+v", p)
	}
	if p.close("t/d", met(outcome.Billing, time.Time{}), t0, noJitter); p.State != Stopped || !p.Until.IsZero() || !p.Reset.IsZero() {
		t.Errorf("no money: %+v", p)
	}
	before = p
	for _, o := range []outcome.ObstacleKind{outcome.UsageLimit, outcome.Authentication} {
		if p.close("t/e", met(o, week), t0, noJitter); p != before {
			t.Errorf("%s when it is stopped: %+v", o, p)
		}
	}
}

// One goes first. It opens the pool when it was served, or has run for long enough.
func TestCanary(t *testing.T) {
	closed := func() Pool {
		p := Pool{Name: "claude", State: Open}
		p.close("t/a", met(outcome.UsageLimit, t0.Add(time.Hour)), t0, noJitter)
		return p
	}
	at := t0.Add(time.Hour)
	admitted := func(p *Pool, path string) bool { _, ok := admit(p, path, at); return ok }

	p := closed()
	if again, ok := admit(&p, "t/a", at.Add(-time.Nanosecond)); ok || again != at {
		t.Errorf("too early: %v, %v", again, ok)
	}
	if !admitted(&p, "t/b") || admitted(&p, "t/a") || !admitted(&p, "t/b") {
		t.Errorf("not exactly t/b goes first: %+v", p)
	}
	if p.served("t/a") || !p.served("t/b") || p != (Pool{Name: "claude", State: Open}) || !admitted(&p, "t/a") {
		t.Errorf("served: %+v", p)
	}

	p = closed()
	admitted(&p, "t/b")
	if p.proven(at.Add(proof-1)) || !p.proven(at.Add(proof)) || p.State != Open {
		t.Errorf("proven: %+v", p)
	}

	p = closed()
	admitted(&p, "t/b")
	if p.gone("t/a", at) || !p.gone("t/b", at) || p.State != Parked || !admitted(&p, "t/c") {
		t.Errorf("gone: %+v", p)
	}

	p = closed()
	if !p.resume(t0) || p.resume(t0.Add(-1)) != true || p.Until != t0.Add(-1) {
		t.Errorf("resumed: %+v", p)
	}
	if _, ok := admit(&p, "t/z", t0); !ok || p.resume(t0) {
		t.Errorf("resumed while one tries: %+v", p)
	}
}

// A pool that an agent has closed which went on opens if that agent has completed its work.
func TestLive(t *testing.T) {
	closed := func(state State, live bool) Pool {
		return Pool{Name: "claude", State: state, By: "t/a", Until: t0.Add(time.Hour), Live: live}
	}
	for _, c := range []struct {
		name, who string
		p         Pool
		opens     bool
	}{
		{"it is served", "t/a", closed(Parked, true), true},
		{"its login is accepted", "t/a", closed(Stopped, true), true},
		{"another one is served", "t/b", closed(Parked, true), false},
		{"it had ended", "t/a", closed(Parked, false), false},
	} {
		if c.p.completed(c.who); (c.p.State == Open) != c.opens || c.opens && c.p != (Pool{Name: "claude", State: Open}) {
			t.Errorf("%s: %+v", c.name, c.p)
		}
	}
}

// Whatever happens, at most one agent goes first, none starts before its time, and only a person starts a
// stopped pool.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, now := Pool{Name: "claude", State: Open}, t0
		running := map[string]bool{} // since the pool was closed
		path := rapid.SampledFrom([]string{"t/a", "t/b", "t/c"})
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "s")) * time.Second) },
			"start": func(t *rapid.T) {
				who, before := path.Draw(t, "who"), p
				again, ok := admit(&p, who, now)
				switch {
				case !ok && !again.After(now):
					t.Fatalf("%s has to ask again at %v, now is %v", who, again, now)
				case ok && before.State == Stopped, ok && before.State == Parked && now.Before(before.Until):
					t.Fatalf("%s starts: %+v", who, before)
				case ok && p.State == Probing:
					for other := range running {
						if other != who && running[other] {
							t.Fatalf("%s and %s go first", who, other)
						}
					}
				}
				running[who] = running[who] || ok
			},
			"limit": func(t *rapid.T) {
				who := path.Draw(t, "who")
				o := rapid.SampledFrom([]outcome.ObstacleKind{outcome.UsageLimit, outcome.Billing, outcome.Authentication}).Draw(t, "what")
				var reset time.Time
				if rapid.Bool().Draw(t, "known") {
					reset = now.Add(time.Duration(rapid.IntRange(-100, 100_000).Draw(t, "reset")) * time.Second)
				}
				was := p.State
				p.close(who, met(o, reset), now, noJitter)
				if delete(running, who); p.State == Parked && was != Stopped && p.Canary != "" || p.State == Open {
					t.Fatalf("after a limit: %+v", p)
				}
				if p.State == Parked {
					clear(running) // those that had begun before are of no account
				}
			},
			"served": func(t *rapid.T) {
				who := path.Draw(t, "who")
				if p.served(who); p.State == Open {
					clear(running)
				}
				delete(running, who)
			},
			"gone": func(t *rapid.T) {
				who := path.Draw(t, "who")
				p.gone(who, now)
				delete(running, who)
			},
			"resume": func(*rapid.T) {
				if p.resume(now) {
					clear(running)
				}
			},
			"": func(t *rapid.T) {
				if (p.State == Probing) != (p.Canary != "") || p.State == Open && p != (Pool{Name: "claude", State: Open}) {
					t.Fatalf("%+v", p)
				}
			},
		})
	})
}

// Agents with the same command line and account share a pool, and no others do.
func TestNames(t *testing.T) {
	claude := nameOf("t/a", agentcli.Claude, map[string]string{"PATH": "/bin"})
	key := nameOf("t/a", agentcli.Claude, map[string]string{"ANTHROPIC_API_KEY": "sk-secret"})
	if claude != "claude" || nameOf("t/b", agentcli.Claude, nil) != claude {
		t.Error(claude)
	}
	if key == claude || len(key) != len("claude-123456") || key != nameOf("t/b", agentcli.Claude, map[string]string{"ANTHROPIC_API_KEY": "sk-secret", "OPENAI_API_KEY": "x"}) {
		t.Error(key)
	}
	if other := nameOf("t/a", agentcli.Claude, map[string]string{"ANTHROPIC_API_KEY": "sk-other"}); other == key {
		t.Error(other)
	}
	if n := nameOf("t/a", agentcli.Codex, nil); n != "codex" {
		t.Error(n)
	}
	if n := nameOf("t/a", agentcli.Plain, nil); n != "t/a" {
		t.Error(n)
	}
}

// An agent that speaks ACP shares the account of its vendor.
func TestAccountOfVendor(t *testing.T) {
	run := func(cli agentcli.CLI, argv ...string) *spec.Agent {
		return &spec.Agent{Aide: &aidefile.Agent{Settings: aidefile.Settings{CLI: cli, Command: argv}}}
	}
	f := Fleet{Agents: map[string]*spec.Agent{
		"t/adapter": run("", "claude-agent-acp"), "t/gemini": run(agentcli.ACP, "gemini", "--acp"),
		"t/script": run(agentcli.ACP, "./agent.sh"), "t/plain": run(agentcli.Plain, "claude"),
		"t/agent": {Command: []string{"claude-agent-acp"}},
	}}
	for path, account := range map[string]string{
		"t/adapter": "claude", "t/gemini": "gemini", "t/script": "t/script", "t/plain": "t/plain", "t/agent": "claude",
	} {
		if all := f.accounts(path); len(all) != 1 || all[0] != account {
			t.Errorf("%s has %v, expected %s", path, all, account)
		}
	}
	f.Quotas = []spec.Quota{{Name: "max", CLI: agentcli.Claude}}
	if all := f.accounts("t/adapter"); all[0] != "max" {
		t.Errorf("it does not have the declared account: %v", all)
	}
}
