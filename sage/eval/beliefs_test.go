package eval_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
)

// Beliefs survive restarts, and two children of one agent have their own.
func TestBeliefsSurviveRestarts(t *testing.T) {
	for name, beliefs := range map[string]func() host.Beliefs{
		"memory": host.NewMemory,
		"book": func() host.Beliefs {
			b, _, err := belief.Open(context.Background(), memory.New())
			if err != nil {
				t.Fatal(err)
			}
			return sagehost.Beliefs{Store: b}
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := `agent Counter { @persistent n: Int step: Int on start { self.n.set(self.n.get() + self.step); print("{self.step}:{self.n.get()}"); if self.n < 3 * self.step { fail "more"; } } on error(e) { } }
				supervisor Root { strategy: OneForOne children { Counter { restart: Transient step: 1 } Counter { restart: Transient step: 10 n: 0 } } } run Root;`
			b := beliefs()
			got, err := run(t, text, eval.Options{Beliefs: b})
			n := starts(got)
			for _, line := range []string{"1:1", "1:2", "1:3", "10:10", "10:20", "10:30"} {
				if n[line] != 1 {
					t.Errorf("%s: %d times; %v", line, n[line], err)
				}
			}
			// The next run continues with the stored values.
			got, err = run(t, text, eval.Options{Beliefs: b})
			if n := starts(got); n["1:4"] != 1 || n["10:40"] != 1 || len(n) != 2 {
				t.Errorf("%v, %v", n, err)
			}
		})
	}
}

// Agents with persistent beliefs can run alone and be summoned.
func TestBeliefsOfSummonedAgents(t *testing.T) {
	b := host.NewMemory()
	text := `agent Sub { @persistent n: Int on start { self.n += 1; yield(self.n); } }
		agent Main { @persistent runs: Int on start { self.runs += 1; let a = summon Sub { n: 5 }; let b = summon Sub { }; print("{self.runs} {try await a} {try await b}"); } on error(e) { print(e.message); } }
		run Main;`
	for _, want := range []string{"1 6 1\n", "2 7 2\n"} {
		if got, err := run(t, text, eval.Options{Beliefs: b}); got != want || err != nil {
			t.Errorf("%q, want %q; %v", got, want, err)
		}
	}
}

// checkpoint() stores all beliefs in one step.
func TestCheckpoint(t *testing.T) {
	b := &counting{Beliefs: host.NewMemory()}
	text := `agent Main { @persistent a: Int @persistent b: String on start { print("{self.a} {self.b}"); checkpoint(); } } run Main;`
	if _, err := run(t, strings.Replace(text, "run Main;", "run Main { a: 4, b: \"x\" };", 1), eval.Options{Beliefs: b}); err != nil {
		t.Fatal(err)
	}
	if b.writes != 1 {
		t.Errorf("%d writes, want 1", b.writes)
	}
	if got, err := run(t, text, eval.Options{Beliefs: b}); got != "4 x\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Beliefs can hold enums, records, options, maps and tuples.
func TestBeliefsOfEveryType(t *testing.T) {
	b := host.NewMemory()
	text := `enum Mode { Idle, Busy(String, Int), One(Option<Option<Int>>) } record Job { id: Int, tags: List<String> }
		agent Main { @persistent mode: Mode @persistent jobs: Map<Int, Job> @persistent best: Option<Option<Int>> @persistent f: Float @persistent t: (Int, Bool)
		on start { print("{self.mode} {self.jobs} {self.best} {self.f} {self.t}");
			match self.mode { Idle => { self.mode = Mode::Busy("x", 2); } Busy(s, n) => { self.mode = Mode::One(Some(None)); } One(o) => { } }
			self.jobs[len(self.jobs)] = Job { id: 7, tags: ["a", "b"] };
			self.best = Some(None); self.f = 1.0 / 0.0; self.t = (3, true); } }
		run Main;`
	for _, want := range []string{
		"Idle {} None 0.0 (0, false)\n",
		"Busy(\"x\", 2) {0: Job { id: 7, tags: [\"a\", \"b\"] }} Some(None) inf (3, true)\n",
		"One(Some(None)) {0: Job { id: 7, tags: [\"a\", \"b\"] }, 1: Job { id: 7, tags: [\"a\", \"b\"] }} Some(None) inf (3, true)\n",
	} {
		if got, err := run(t, text, eval.Options{Beliefs: b}); got != want || err != nil {
			t.Errorf("%q, want %q; %v", got, want, err)
		}
	}
}

// If the store refuses a write, the agent gets an error and the belief keeps its value.
func TestRefusedWrites(t *testing.T) {
	b := &counting{Beliefs: host.NewMemory(), refuse: errors.New("the disk is full")}
	got, err := run(t, `agent Main { @persistent n: Int @persistent xs: List<Int> on start {
			let r = catch set(5); print(self.n);
			self.xs = [1];
		} on error(e) { print(e.message); print(self.xs); } }
		fn set(n: Int) -> Int { return n; } run Main;`, eval.Options{Beliefs: b})
	if !strings.Contains(got, "the disk is full") || !strings.HasSuffix(got, "[]\n") || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}

// An incarnation opens its beliefs once.
func TestBeliefsOpenOnce(t *testing.T) {
	b := &counting{Beliefs: host.NewMemory()}
	if _, err := run(t, `agent Main { @persistent n: Int on start { for i in range(0, 5) { self.n += 1; } } } run Main;`, eval.Options{Beliefs: b}); err != nil {
		t.Fatal(err)
	}
	if b.begins != 1 || b.writes != 5 || b.ends != 1 {
		t.Errorf("%+v", b)
	}
}

// Beliefs can be used with get and set or like variables.
func TestBeliefAccess(t *testing.T) {
	got, err := run(t, `agent Main { @persistent count: Int xs: List<Int> on start {
			self.count = self.count + 1; self.count.set(self.count.get() + 1); print("{self.count.get()} {self.count}");
			self.xs = push(self.xs, 1); self.xs[0] += 4; print(self.xs); } } run Main { xs: [] };`, eval.Options{})
	if got != "2 2\n[5]\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A stored value of another type than the belief makes the start fail. It is not overwritten.
func TestChangedBeliefType(t *testing.T) {
	b := host.NewMemory()
	program := func(typ, value string) string {
		return "agent A { @persistent n: " + typ + " on start { print(self.n); self.n = " + value + "; } } run A;"
	}
	if got, err := run(t, program("Int", "5"), eval.Options{Beliefs: b}); got != "0\n" || err != nil {
		t.Errorf("%s%v", got, err)
	}
	got, err := run(t, program("String", `"x"`), eval.Options{Beliefs: b})
	if got != "" || err == nil || !strings.Contains(err.Error(), "is stored as 5") {
		t.Errorf("%s%v", got, err)
	}
	if got, err := run(t, program("Int", "6"), eval.Options{Beliefs: b}); got != "5\n" || err != nil {
		t.Errorf("%s%v", got, err)
	}
}

// counting counts the calls of a store of beliefs.
type counting struct {
	host.Beliefs
	mu                   sync.Mutex
	begins, writes, ends int
	refuse               error
}

func (c *counting) OpenBeliefs(ctx context.Context, a host.Agent, names []string) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begins++
	return c.Beliefs.OpenBeliefs(ctx, a, names)
}

func (c *counting) SaveBeliefs(ctx context.Context, a host.Agent, values map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return c.refuse
	}
	c.writes++
	return c.Beliefs.SaveBeliefs(ctx, a, values)
}

func (c *counting) CloseBeliefs(a host.Agent) {
	c.mu.Lock()
	c.ends++
	c.mu.Unlock()
	c.Beliefs.CloseBeliefs(a)
}
