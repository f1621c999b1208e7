package quota

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
)

// An agent goes on with the account that it used last, then with its own, then with the next, whichever serves. If none
// does, it waits for the one that may serve first.
func TestChoose(t *testing.T) {
	open := func(name string) *Pool { return &Pool{Name: name, State: Open} }
	parked := func(name string, minutes int) *Pool {
		return &Pool{Name: name, State: Parked, Until: t0.Add(time.Duration(minutes) * time.Minute)}
	}
	probing := func(name, canary string) *Pool {
		return &Pool{Name: name, State: Probing, Canary: canary, CanaryAt: t0}
	}
	stopped := func(name string) *Pool { return &Pool{Name: name, State: Stopped} }
	for _, c := range []struct {
		name     string
		accounts []*Pool
		last     string
		i        int
		again    time.Duration // 0: it starts
	}{
		{"both serve", []*Pool{open("a"), open("b")}, "", 0, 0},
		{"it stays", []*Pool{open("a"), open("b")}, "b", 1, 0},
		{"its last account is not its own any longer", []*Pool{open("a"), open("b")}, "c", 0, 0},
		{"its own is closed", []*Pool{parked("a", 9), open("b")}, "a", 1, 0},
		{"its own is stopped", []*Pool{stopped("a"), open("b")}, "", 1, 0},
		{"the next is closed", []*Pool{open("a"), parked("b", 9)}, "b", 0, 0},
		{"another one tries its own", []*Pool{probing("a", "t/x"), open("b")}, "a", 1, 0},
		{"it tries its own", []*Pool{probing("a", "t/me"), open("b")}, "a", 0, 0},
		{"its own may be tried", []*Pool{parked("a", 0), open("b")}, "a", 0, 0},
		{"its own may be tried, and the next serves it", []*Pool{parked("a", 0), open("b")}, "b", 1, 0},
		{"the next opens first", []*Pool{parked("a", 9), parked("b", 5)}, "a", 1, 5 * time.Minute},
		{"its own opens first", []*Pool{parked("a", 3), parked("b", 5)}, "b", 0, 3 * time.Minute},
		{"only one has a time", []*Pool{stopped("a"), parked("b", 5)}, "a", 1, 5 * time.Minute},
		{"none has a time", []*Pool{stopped("a"), probing("b", "t/x")}, "a", 0, recheck},
		{"there is no next", []*Pool{parked("a", 9)}, "a", 0, 9 * time.Minute},
	} {
		i, again, ok := choose("t/me", c.accounts, c.last, t0)
		if i != c.i || ok != (c.again == 0) || !ok && again != t0.Add(c.again) {
			t.Errorf("%s: %d, %v, %v", c.name, i, again.Sub(t0), ok)
		}
	}
}

// choices is a model of agents that choose between accounts.
type choices struct {
	now      time.Time
	accounts map[string][]string // of agents
	pools    map[string]*Pool
	last     map[string]string
	running  map[string]string // account of agents that run
}

func (c *choices) of(agent string) (all []*Pool) {
	for _, name := range c.accounts[agent] {
		all = append(all, c.pools[name])
	}
	return all
}

func (c *choices) start(t *rapid.T, who string) {
	all, last := c.of(who), c.last[who]
	open := slices.ContainsFunc(all, func(p *Pool) bool { return p.State == Open })
	stays := slices.ContainsFunc(all, func(p *Pool) bool { return p.Name == last && p.State == Open })
	i, again, ok := choose(who, all, last, c.now)
	p := all[i]
	switch {
	case !ok && open:
		t.Fatalf("%s waits for %s, and another account is open", who, p.Name)
	case !ok && !again.After(c.now):
		t.Fatalf("%s has to ask again at %v, now is %v", who, again, c.now)
	case !ok:
		for _, other := range all {
			if other.State == Parked && again.After(other.Until) {
				t.Fatalf("%s waits until %v for %s, and %s is tried at %v", who, again, p.Name, other.Name, other.Until)
			}
		}
		return
	case stays && p.Name != last:
		t.Fatalf("%s leaves %s, which is open, for %s", who, last, p.Name)
	case p.State == Stopped, p.State == Parked && c.now.Before(p.Until):
		t.Fatalf("%s starts with %+v", who, p)
	}
	p.admit(who, c.now)
	c.last[who], c.running[who] = p.Name, p.Name
}

// Whatever happens, an agent uses one account at a time, of those that it may use; it stays with one that is open, and
// waits only if both are closed. One agent at most tries an account first.
func TestChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := choices{
			now:      t0,
			accounts: map[string][]string{"t/a": {"main", "spare"}, "t/b": {"main", "spare"}, "t/c": {"spare"}, "t/d": {"spare", "main"}},
			pools:    map[string]*Pool{}, last: map[string]string{}, running: map[string]string{},
		}
		for _, name := range []string{"main", "spare"} {
			c.pools[name] = &Pool{Name: name, State: Open}
		}
		agents := rapid.SampledFrom(slices.Sorted(maps.Keys(c.accounts)))
		ends := func(t *rapid.T) (who string, p *Pool) {
			if who = agents.Draw(t, "who"); c.running[who] == "" {
				t.Skip("it does not run")
			}
			defer delete(c.running, who)
			return who, c.pools[c.running[who]]
		}
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				c.now = c.now.Add(time.Duration(rapid.IntRange(1, 7200).Draw(t, "s")) * time.Second)
			},
			"start": func(t *rapid.T) {
				if who := agents.Draw(t, "who"); c.running[who] == "" {
					c.start(t, who)
				}
			},
			"limit": func(t *rapid.T) {
				who, p := ends(t)
				what := rapid.SampledFrom([]outcome.ObstacleKind{outcome.UsageLimit, outcome.Billing}).Draw(t, "what")
				reset := c.now.Add(time.Duration(rapid.IntRange(-100, 100_000).Draw(t, "reset")) * time.Second)
				p.close(who, met(what, reset), c.now, noJitter)
			},
			"served": func(t *rapid.T) { who, p := ends(t); p.served(who) },
			"gone":   func(t *rapid.T) { who, p := ends(t); p.gone(who, c.now) },
			"resume": func(t *rapid.T) {
				c.pools[rapid.SampledFrom([]string{"main", "spare"}).Draw(t, "name")].resume(c.now)
			},
			"": func(t *rapid.T) {
				for name, p := range c.pools {
					if p.State == Probing && c.running[p.Canary] != name {
						t.Fatalf("%s tries %s, and runs with %q", p.Canary, name, c.running[p.Canary])
					}
				}
				for who, name := range c.running {
					if !slices.Contains(c.accounts[who], name) {
						t.Fatalf("%s runs with %s", who, name)
					}
				}
			},
		})
	})
}

// The accounts of an agent are those of the first quota that is for it, or else the one that its variables choose.
func TestAccountsOfAgent(t *testing.T) {
	claude := &spec.Agent{Command: []string{"claude", "--model", "opus"}}
	f := Fleet{
		Agents: map[string]*spec.Agent{"t/x": claude, "t/n/y": claude, "t/z": {Command: []string{"codex"}}, "t/s": {Command: []string{"./s"}}},
		Quotas: []spec.Quota{
			{Name: "haiku", CLI: agentcli.Claude, Models: []string{"haiku"}, Next: "first"},
			{Name: "night", CLI: agentcli.Claude, Agents: []string{"n"}, Next: "rest"},
			{Name: "rest", CLI: agentcli.Claude, Next: "night"},
		},
	}
	for path, expected := range map[string][]string{
		"t/x": {"rest", "night"}, "t/n/y": {"night", "rest"}, "t/z": {"codex"}, "t/s": {"t/s"}, "t/gone": {"t/gone"},
	} {
		if got := f.accounts(path); !slices.Equal(got, expected) {
			t.Errorf("%s: %q, expected %q", path, got, expected)
		}
	}
	for name, expected := range map[string]bool{"night": true, "claude": true, "codex-12ab34": true, "t/s": true, "day": false, "claude-x": false} {
		if f.exists(name) != expected {
			t.Errorf("%s exists: %v", name, !expected)
		}
	}
}
