package budget

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
)

// noon is when the tests begin.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)

func TestMeasures(t *testing.T) {
	t.Parallel()
	used := cost.Sum{Counts: cost.Counts{Calls: 9, UnknownTokens: 2, Turns: 500, UnknownDollars: 9, Runs: 3,
		Time: 90 * time.Minute},
		Tokens: 2003411, Dollars: 0}
	for _, tt := range []struct {
		b       spec.Budget
		raised  int
		text    string
		reached string
		needed  int // raises
	}{
		{spec.Budget{}, 0, "", "", 1},
		{spec.Budget{Tokens: 2_000_000}, 0, ">= 2,003,411 of 2,000,000 tokens", "tokens", 1},
		{spec.Budget{Tokens: 2_000_000}, 1, ">= 2,003,411 of 4,000,000 tokens", "", 2},
		{spec.Budget{Tokens: 20_000}, 0, ">= 2,003,411 of 20,000 tokens", "tokens", 100},
		{spec.Budget{Tokens: 2003411}, 0, ">= 2,003,411 of 2,003,411 tokens", "tokens", 1},
		{spec.Budget{Dollars: 2.5}, 0, ">= 0.00 of 2.50 dollars", "", 1},
		{spec.Budget{Turns: 501, Time: 2 * time.Hour, Runs: 4}, 0, "500 of 501 turns, 1h30m of 2h00m time, 3 of 4 runs",
			"", 1},
		{spec.Budget{Turns: 501, Time: time.Hour, Runs: 3}, 0, "500 of 501 turns, 1h30m of 1h00m time, 3 of 3 runs",
			"time", 1},
		{spec.Budget{Runs: 3}, 0, "3 of 3 runs", "runs", 1},
	} {
		all := measures(&tt.b, used, tt.raised)
		m, ok := reached(all)
		if texts(all) != tt.text || ok != (tt.reached != "") || m.Limit != tt.reached {
			t.Errorf("%+v: %s, reached %+v", tt.b, texts(all), m)
		}
		if n := raisesNeeded(&tt.b, used, tt.raised); n != tt.needed {
			t.Errorf("%+v: to be raised %d times, expected %d", tt.b, n, tt.needed)
		} else if _, ok := reached(measures(&tt.b, used, n)); ok {
			t.Errorf("%+v: still reached when it is raised %d times", tt.b, n)
		}
	}
}

// runs is a state with runs in progress.
func runs(budgets []spec.Budget, all ...run) *state {
	s := newState()
	s.declare(budgets)
	s.begin(noon)
	for _, r := range all {
		r.stop = func(error) bool { return true }
		if r.began.IsZero() {
			r.began = noon
		}
		s.put(&r)
	}
	return &s
}

func used(tokens int64) cost.Sum { return cost.Sum{Tokens: tokens} }

// What a budget covers is ended when it is reached, and nothing else; and may not start.
func TestDecide(t *testing.T) {
	t.Parallel()
	team := spec.Budget{Name: "team", Of: []string{"team"}, Per: spec.PerDay, Tokens: 100}
	own := spec.Budget{Name: "own", Of: []string{"a"}, Per: spec.PerDay, Tokens: 40}
	a, b, c := run{path: "t/team/a", incarnation: 1}, run{path: "t/team/b", incarnation: 1, account: "main"},
		run{path: "t/c"}
	with := func(r run, tokens int64) run { r.used = used(tokens); return r }
	at := func(r run, task string) run { r.task = task; return r }
	for name, tt := range map[string]struct {
		budgets []spec.Budget
		runs    []run
		counted map[string]cost.Sum
		stopped string
		refused string
		reached string
	}{
		"nothing":       {[]spec.Budget{team, own}, []run{with(a, 39), with(b, 60), with(c, 500)}, nil, "", "", ""},
		"the inner one": {[]spec.Budget{team, own}, []run{with(a, 40), b}, nil, "t/team/a", "t/team/a", "own"},
		"the outer one": {[]spec.Budget{team, own}, []run{with(a, 30), with(b, 70), c}, nil, "t/team/a t/team/b",
			"t/team/a t/team/b", "team"},
		"counted and in progress": {[]spec.Budget{team}, []run{with(a, 30), with(b, 1)},
			map[string]cost.Sum{"t/team/x": used(69)},
			"t/team/a t/team/b", "t/team/a t/team/b", "team"},
		"of an account": {[]spec.Budget{{Name: "n", Quota: "main", Per: spec.PerDay, Tokens: 10}}, []run{with(a, 500),
			with(b, 10)}, nil,
			"t/team/b", "t/team/b", "n"},
		"per run": {[]spec.Budget{{Name: "n", Per: spec.PerRun, Tokens: 10}}, []run{with(a, 9), with(b, 10), with(c,
			9)}, nil,
			"t/team/b", "t/team/b", "n"},
		"per task": {[]spec.Budget{{Name: "n", Per: spec.PerTask, Tokens: 10}}, []run{at(with(a, 5), "x"), at(with(b,
			5), "x"),
			at(with(c, 9), "y")}, nil, "t/team/a t/team/b", "", ""},
		"runs go on": {[]spec.Budget{{Name: "n", Per: spec.PerDay, Runs: 3}}, []run{a, b},
			map[string]cost.Sum{"t/c": {Counts: cost.Counts{Runs: 1}}},
			"", "t/c t/team/a t/team/b", "n"},
		"time": {[]spec.Budget{{Name: "n", Per: spec.PerDay, Time: time.Hour}}, []run{{path: "t/c",
			began: noon.Add(-time.Hour)}, a}, nil,
			"t/c t/team/a", "t/c t/team/a t/team/b", "n"},
	} {
		s := runs(tt.budgets, tt.runs...)
		for path, sum := range tt.counted {
			s.count(path, map[string]cost.Sum{"": sum})
		}
		d := s.decide(noon)
		var stopped, refused, reached []string
		for _, r := range d.stop {
			stopped = append(stopped, r.path)
		}
		slices.Sort(stopped)
		for _, r := range []run{c, a, b} {
			if s.refuses(r.path, r.account, noon) != nil {
				refused = append(refused, r.path)
			}
		}
		for name := range d.reached {
			reached = append(reached, name)
		}
		if got := strings.Join(stopped, " "); got != tt.stopped {
			t.Errorf("%s: %q is ended, expected %q", name, got, tt.stopped)
		}
		if got := strings.Join(refused, " "); got != tt.refused {
			t.Errorf("%s: %q may not start, expected %q", name, got, tt.refused)
		}
		if got := strings.Join(reached, " "); got != tt.reached {
			t.Errorf("%s: %q is reached, expected %q", name, got, tt.reached)
		}
		if again := s.decide(noon); len(again.stop)+len(again.reached)+len(again.opened) != 0 {
			t.Errorf("%s: and again: %+v", name, again)
		}
	}
}

// The next look is when a limit of time is reached, and not earlier or later.
func TestNext(t *testing.T) {
	t.Parallel()
	a, b := run{path: "t/a", task: "x"}, run{path: "t/b", task: "x", began: noon.Add(-time.Minute)}
	for _, tt := range []struct {
		b        spec.Budget
		runs     []run
		expected time.Duration
	}{
		{spec.Budget{Per: spec.PerDay, Tokens: 5}, []run{a, b}, 12 * time.Hour},
		{spec.Budget{Per: spec.PerDay, Time: time.Hour}, nil, 12 * time.Hour},
		{spec.Budget{Per: spec.PerDay, Time: 100 * time.Hour}, []run{a}, 12 * time.Hour},
		{spec.Budget{Per: spec.PerDay, Time: time.Hour}, []run{a}, time.Hour},
		{spec.Budget{Per: spec.PerDay, Time: 11 * time.Minute}, []run{a, b}, 5 * time.Minute},
		{spec.Budget{Per: spec.PerRun, Time: 11 * time.Minute}, []run{a, b}, 10 * time.Minute},
		{spec.Budget{Per: spec.PerTask, Time: 11 * time.Minute}, []run{a, b}, 5 * time.Minute},
	} {
		s := runs([]spec.Budget{tt.b}, tt.runs...)
		next := s.next(noon)
		if got := next.Sub(noon); got < tt.expected || got > tt.expected+time.Second {
			t.Errorf("%+v: %v, expected %v", tt.b, got, tt.expected)
		}
		if tt.expected == 12*time.Hour {
			continue
		}
		if d := s.decide(next.Add(-2 * time.Millisecond)); len(d.stop) != 0 {
			t.Errorf("%+v: earlier than %v", tt.b, next)
		}
		if d := s.decide(next); len(d.stop) == 0 {
			t.Errorf("%+v: not reached at %v", tt.b, next)
		}
	}
}

// Budgets that are not declared are forgotten, and so is what is parked and not there.
func TestForget(t *testing.T) {
	t.Parallel()
	s := runs([]spec.Budget{{Name: "run", Per: spec.PerRun, Tokens: 1}, {Name: "day", Per: spec.PerDay, Tokens: 1}})
	s.records = map[string]*record{
		"run": {Name: "run", Agents: map[string]string{"t/a": "x", "t/gone": "x"},
			Tasks: map[string]taskRecord{"x": {}}},
		"day":  {Name: "day", Agents: map[string]string{"t/a": "x"}},
		"gone": {Name: "gone"},
	}
	gone, changed := s.forget(func(path string) bool { return path == "t/a" })
	if !slices.Equal(gone, []string{"gone"}) || !slices.Equal(changed, []string{"day", "run"}) ||
		len(s.records["run"].Agents) != 1 ||
		len(s.records["run"].Tasks)+len(s.records["day"].Agents) != 0 {
		t.Errorf("%v, %v, %+v", gone, changed, s.records)
	}
}

// Whatever runs begin, use and end, whenever a person raises a budget and days pass: a budget per day is reached exactly
// while what it covers has used as much as it allows, nothing that it covers runs or starts then, and each change is
// told once.
func TestStateModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := noon
		budgets := []spec.Budget{
			{Name: "all", Per: spec.PerDay, Tokens: 100, Runs: 12}, {Name: "a", Of: []string{"a"}, Per: spec.PerDay,
				Tokens: 40},
			{Name: "b", Of: []string{"b*"}, Per: spec.PerDay, Tokens: 50},
		}
		paths := []string{"t/a", "t/b1", "t/b2", "t/c"}
		s := newState()
		s.declare(budgets)
		type tally struct{ tokens, runs int64 }
		model := map[string]*tally{} // today, with what is in progress
		progress := map[string]int64{}
		raised := map[string]int{}
		told := map[string]bool{}
		for _, path := range paths {
			model[path] = &tally{}
		}
		ended := func(r *run) { // and counted
			sum := s.counted[r.path][""].Plus(r.sum(now))
			s.count(r.path, map[string]cost.Sum{"": sum})
			s.drop(r.path)
			delete(progress, r.path)
		}
		running := func(path string) *run {
			if s.runs[path] == nil {
				t.Skip("it does not run")
			}
			return s.runs[path]
		}
		path := func() string { return rapid.SampledFrom(paths).Draw(t, "path") }
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				p := path()
				if s.runs[p] != nil || s.refuses(p, "", now) != nil {
					t.Skip("it may not start")
				}
				s.put(&run{path: p, began: now, stop: func(error) bool { return true }})
				model[p].runs++
			},
			"use": func(t *rapid.T) {
				r := running(path())
				n := rapid.Int64Range(0, 30).Draw(t, "tokens")
				s.use(r, r.account, used(r.used.Tokens+n))
				progress[r.path] += n
				model[r.path].tokens += n
			},
			"end": func(*rapid.T) { ended(running(path())) },
			"raise": func(t *rapid.T) {
				b := rapid.SampledFrom(budgets).Draw(t, "budget")
				if _, ok := s.raise(&b, now); !ok {
					t.Fatal("it cannot be raised")
				}
				raised[b.Name] = s.records[b.Name].Raised
			},
			"a day": func(*rapid.T) {
				now = midnight(now).Add(time.Hour)
				clear(raised)
				for p, m := range model {
					*m = tally{tokens: progress[p]}
					if s.runs[p] != nil {
						m.runs = 1
					}
				}
			},
			"": func(t *rapid.T) {
				days := s.days(now)
				if s.using = nil; !slices.Equal(days, s.days(now)) {
					t.Fatalf("%+v is used, and not %+v", s.days(now), days)
				}
				d := s.decide(now)
				for name := range d.reached {
					if told[name] {
						t.Fatalf("%s is reached twice", name)
					}
					told[name] = true
				}
				for _, name := range d.opened {
					if !told[name] {
						t.Fatalf("%s is opened twice", name)
					}
					told[name] = false
				}
				refused := map[string]bool{}
				for _, b := range budgets {
					sum := tally{}
					for p, m := range model {
						if b.Covers(p) {
							sum.tokens, sum.runs = sum.tokens+m.tokens, sum.runs+m.runs
						}
					}
					factor := int64(1 + raised[b.Name])
					tokens := sum.tokens >= b.Tokens*factor
					is := tokens || b.Runs > 0 && sum.runs >= b.Runs*factor
					if told[b.Name] != is {
						t.Fatalf("%s is reached: %v, with %+v, raised %d times", b.Name, told[b.Name], sum,
							raised[b.Name])
					}
					for _, p := range paths {
						refused[p] = refused[p] || is && b.Covers(p)
						if r := s.runs[p]; r != nil && tokens && b.Covers(p) && r.stopped == "" {
							t.Fatalf("%s goes on with %s", p, b.Name)
						}
					}
				}
				for _, p := range paths {
					if no := s.refuses(p, "", now); (no != nil) != refused[p] {
						t.Fatalf("%s may not start: %+v", p, no)
					}
					if r := s.runs[p]; r != nil && r.stopped != "" {
						ended(r)
					}
				}
			},
		})
	})
}

// Whether an agent may start is decided without a look at the others.
func TestStartLooksAtNoOthers(t *testing.T) {
	t.Parallel()
	for name, budgets := range map[string][]spec.Budget{
		"no budget":         nil,
		"budget of another": {{Name: "other", Of: []string{"t/other"}, Per: spec.PerDay, Tokens: 1}},
		"budget per run":    {{Name: "run", Per: spec.PerRun, Tokens: 1}},
	} {
		s := runs(budgets, run{path: "t/b", began: noon}, run{path: "t/c", began: noon})
		clear(s.matches)
		if no := s.refuses("t/a", "", noon); no != nil || len(s.matches) != 1 {
			t.Errorf("%s: refused: %v; looked at %d agents, expected 1", name, no, len(s.matches))
		}
	}
	s := runs([]spec.Budget{{Name: "day", Per: spec.PerDay, Runs: 5}}, run{path: "t/b", began: noon, used: used(7)})
	for i, path := range []string{"t/a", "t/c", "t/d", "t/a", "t/e"} { // t/a twice
		clear(s.matches)
		if no := s.refuses(path, "", noon); no != nil || i > 0 && len(s.matches) != 1 {
			t.Errorf("%s: refused: %v; looked at %d agents, expected 1", path, no, len(s.matches))
		}
		s.put(&run{path: path, began: noon})
	}
	if no := s.refuses("t/f", "", noon); no == nil {
		t.Error("more runs begin than are allowed")
	}
}
