package shutdown

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/spec"
)

// order returns the start order of agents, each with its dependencies.
func order(t interface{ Fatalf(string, ...any) }, needs map[string][]string) *spec.StartOrder {
	var decls []spec.Decl
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		decls = append(decls, spec.Decl{Agent: &spec.Agent{Name: name, Command: []string{"x"}, DependsOn: needs[name]}})
	}
	tree, problems := spec.Assemble(spec.Node{Name: "p"}, decls)
	if problems != nil {
		t.Fatalf("%v", problems)
	}
	return tree.StartOrder()
}

const never = -1 * time.Second

// simulate runs a shutdown in which agents end some time after they were asked or killed. It returns
// the actions, such as "0s ask a b".
func simulate(p *Plan, afterAsk, afterKill map[string]time.Duration) (log []string, took time.Duration) {
	start := p.begun
	now := start
	ends := map[string]time.Time{}
	stepped, due := false, time.Time{}
	plan := func(path string, d time.Duration) {
		if at := now.Add(d); d >= 0 && (ends[path].IsZero() || at.Before(ends[path])) {
			ends[path] = at
		}
	}
	say := func(what string, paths []string) {
		if len(paths) == 0 {
			return
		}
		line := fmt.Sprintf("%v %s", now.Sub(start), what)
		for _, path := range paths {
			line += " " + strings.TrimPrefix(path, "p/")
		}
		log = append(log, line)
	}
	for !p.Over() {
		quiet := stepped && !p.HasNews() && (due.IsZero() || now.Before(due))
		s := p.Step(now)
		if quiet && len(s.Ask)+len(s.Kill)+len(s.Left) > 0 {
			log = append(log, "acts without news")
		}
		stepped, due = true, s.Next
		say("ask", s.Ask)
		say("kill", s.Kill)
		say("leave", s.Left)
		for _, path := range s.Ask {
			plan(path, afterAsk[path])
		}
		for _, path := range s.Kill {
			plan(path, afterKill[path])
		}
		for _, path := range s.Left {
			delete(ends, path)
		}
		next := s.Next
		for _, at := range ends {
			if next.IsZero() || at.Before(next) {
				next = at
			}
		}
		if next.IsZero() {
			if !p.Over() {
				log = append(log, "stuck")
			}
			break
		}
		now = next
		var ended []string
		for path, at := range ends {
			if !at.After(now) {
				ended = append(ended, path)
			}
		}
		slices.Sort(ended)
		for _, path := range ended {
			delete(ends, path)
			if p.Ended(path) {
				say("late", []string{path})
			}
		}
	}
	return log, now.Sub(start)
}

func TestPlan(t *testing.T) {
	type durations = map[string]time.Duration
	const s = time.Second
	for _, c := range []struct {
		name                string
		needs               map[string][]string
		allowed, ask, kills durations
		want                string
	}{
		{"all at once", map[string][]string{"a": nil, "b": nil}, durations{"p/a": 5 * s, "p/b": 5 * s}, durations{"p/a": s, "p/b": 2 * s}, nil, "0s ask a b"},
		{"what others depend on is asked later", map[string][]string{"api": {"db"}, "db": nil}, durations{"p/api": 5 * s, "p/db": 5 * s}, durations{"p/api": s, "p/db": s}, nil,
			"0s ask api; 1s ask db"},
		{"not before all have ended", map[string][]string{"api": {"db"}, "web": {"db"}, "db": nil}, durations{"p/api": 5 * s, "p/db": 5 * s, "p/web": 5 * s},
			durations{"p/api": s, "p/db": s, "p/web": 3 * s}, nil, "0s ask api web; 3s ask db"},
		{"through one that does not live", map[string][]string{"api": {"cache"}, "cache": {"db"}, "db": nil}, durations{"p/api": 5 * s, "p/db": 5 * s},
			durations{"p/api": s, "p/db": s}, nil, "0s ask api; 1s ask db"},
		{"one that does not obey", map[string][]string{"a": nil, "b": nil}, durations{"p/a": 5 * s, "p/b": 5 * s}, durations{"p/a": never, "p/b": s}, nil,
			"0s ask a b; 5s kill a; 5s late a"},
		{"each has its own time", map[string][]string{"a": nil, "b": nil}, durations{"p/a": 5 * s, "p/b": 60 * s}, durations{"p/a": never, "p/b": 50 * s}, nil,
			"0s ask a b; 5s kill a; 5s late a"},
		{"a chain that does not obey", map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil}, durations{"p/a": 5 * s, "p/b": 5 * s, "p/c": 5 * s},
			durations{"p/a": never, "p/b": never, "p/c": never}, nil,
			"0s ask a; 5s ask b c; 5s kill a; 5s late a; 10s kill b; 10s late b; 10s kill c; 10s late c"},
		{"who cannot be killed is left", map[string][]string{"a": {"b"}, "b": nil}, durations{"p/a": 5 * s, "p/b": 5 * s},
			durations{"p/a": never, "p/b": never}, durations{"p/a": never}, "0s ask a; 5s ask b; 5s kill a; 15s kill b; 15s leave a; 15s late b"},
		{"no time at all", map[string][]string{"a": {"b"}, "b": nil}, durations{"p/a": 0, "p/b": 0}, durations{}, nil, "0s kill a; 0s kill b"},
		{"not in the order", map[string][]string{"a": nil}, durations{"p/a": 5 * s, "p/zzz": 5 * s}, durations{"p/a": s, "p/zzz": s}, nil, "0s ask a zzz"},
		{"no agents to stop", map[string][]string{"a": nil}, durations{}, nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(order(t, c.needs), c.allowed, time.Unix(0, 0))
			got, _ := simulate(p, c.ask, c.kills)
			if got := strings.Join(got, "; "); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	now := time.Unix(0, 0)
	p := New(order(t, map[string][]string{"a": nil}), map[string]time.Duration{"p/a": time.Second}, now)
	p.Step(now)
	p.Ended("p/a")
	if !p.Over() {
		t.Fatal("not over")
	}
	p.Join("p/a", time.Minute)
	if s := p.Step(now); p.Over() || !slices.Equal(s.Ask, []string{"p/a"}) {
		t.Errorf("who was started after all: %+v", s)
	}
	p.Join("p/a", time.Minute) // known
	if s := p.Step(now); s.Ask != nil {
		t.Errorf("asked twice: %+v", s)
	}
	if p.Ended("p/a"); !p.Over() {
		t.Error("not over in the end")
	}
}

// The end of an agent that none waits for is no reason to look at all others.
func TestNews(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	needs, allowed := map[string][]string{"db": nil, "api": {"db"}}, map[string]time.Duration{"p/db": 1, "p/api": 1}
	for i := range 1000 {
		name := fmt.Sprint("a", i)
		needs[name], allowed["p/"+name] = nil, time.Second
	}
	p := New(order(t, needs), allowed, now)
	if s := p.Step(now); len(s.Ask) != 1001 || p.HasNews() {
		t.Fatalf("%d are asked, with news: %v", len(s.Ask), p.HasNews())
	}
	for i := range 1000 {
		if p.Ended(fmt.Sprint("p/a", i)); p.HasNews() {
			t.Fatalf("there is news of a%d", i)
		}
	}
	if p.Ended("p/api"); !p.HasNews() {
		t.Error("there is no news of db, which is free")
	}
	p.Step(now)
	if p.HasNews() {
		t.Error("there is news after a step")
	}
	if p.Ended("p/db"); !p.HasNews() {
		t.Error("there is no news of the end")
	}
}

// A plan keeps its bounds for random dependencies and agents. Some agents are slow, some must be
// killed, and some do not end at all.
func TestPlanProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "agents")
		needs := map[string][]string{}
		allowed, ask, kill := map[string]time.Duration{}, map[string]time.Duration{}, map[string]time.Duration{}
		someTime := rapid.SampledFrom([]time.Duration{0, time.Second, 3 * time.Second, 20 * time.Second, never})
		var longest time.Duration
		for i := range n {
			name := fmt.Sprint("a", i)
			needs[name] = nil
			for j := range i {
				if rapid.IntRange(0, 2).Draw(t, "needs") == 0 {
					needs[name] = append(needs[name], fmt.Sprint("a", j))
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "dead") == 0 {
				continue
			}
			path := "p/" + name
			allowed[path] = rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second}).Draw(t, "allowed")
			ask[path], kill[path] = someTime.Draw(t, "ends when asked"), someTime.Draw(t, "ends when killed")
			longest = max(longest, allowed[path])
		}
		p := New(order(t, needs), allowed, time.Unix(0, 0))
		log, took := simulate(p, ask, kill)
		if took > p.Bound() {
			t.Fatalf("took %v, longer than %v: %v", took, p.Bound(), log)
		}
		var dependents func(path string) []string // that live, at any distance
		dependents = func(path string) (all []string) {
			for other, on := range needs {
				if slices.Contains(on, strings.TrimPrefix(path, "p/")) {
					all = append(append(all, "p/"+other), dependents("p/"+other)...)
				}
			}
			return all
		}
		asked, killed, over := map[string]time.Duration{}, map[string]time.Duration{}, map[string]time.Duration{}
		end := func(path string) time.Duration { // when it was over, as the simulation has it
			at, known := over[path]
			if a, ok := asked[path]; ok && ask[path] >= 0 && (!known || a+ask[path] < at) {
				at, known = a+ask[path], true
			}
			if k, ok := killed[path]; ok && kill[path] >= 0 && (!known || k+kill[path] < at) {
				at, known = k+kill[path], true
			}
			if !known {
				return 1 << 62
			}
			return at
		}
		each := func(f func(line, what, path string, at time.Duration)) {
			for _, line := range log {
				words := strings.Fields(line)
				at, err := time.ParseDuration(words[0])
				if err != nil {
					t.Fatalf("%s: %v", line, log)
				}
				for _, name := range words[2:] {
					f(line, words[1], "p/"+name, at)
				}
			}
		}
		into := map[string]map[string]time.Duration{"ask": asked, "kill": killed, "leave": over, "late": {}}
		each(func(line, what, path string, at time.Duration) {
			if _, twice := into[what][path]; twice {
				t.Fatalf("%s twice: %v", line, log)
			}
			into[what][path] = at
		})
		each(func(line, what, path string, at time.Duration) {
			living := slices.IndexFunc(dependents(path), func(d string) bool {
				_, takesPart := allowed[d]
				return takesPart && end(d) > at
			}) >= 0
			switch what {
			case "ask":
				if living && at < longest {
					t.Fatalf("%s while others that depend on it live: %v", line, log)
				}
			case "kill":
				if since, was := asked[path]; allowed[path] > 0 && (!was || at < since+allowed[path]) {
					t.Fatalf("%s too early: %v", line, log)
				}
				if living && at < 2*longest {
					t.Fatalf("%s while others that depend on it live: %v", line, log)
				}
			}
		})
		for path := range allowed {
			if end(path) > took {
				t.Fatalf("%s has not ended: %v", path, log)
			}
		}
	})
}
