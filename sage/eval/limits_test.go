package eval_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// An endless loop can be stopped and does not starve other agents.
func TestEndlessLoops(t *testing.T) {
	for name, loop := range map[string]string{
		"loop":      `loop { }`,
		"while":     `let i = 0; while i >= 0 { i = i; }`,
		"recursion": `loop { let x = deep(100); }`,
		"for":       `for i in range(0, 1000000000000) { }`,
		"library":   `loop { let xs = map(range(0, 1000), |x: Int| x + 1); }`,
		"sort":      `loop { let xs = sort(range(0, 10000)); }`,
		"caught":    `loop { let x = bad() catch { 0 }; }`,
		"retry":     `retry(1000000000) { bad() } catch { 0 };`,
		"text":      `loop { let s = str_repeat("x", 1000); }`,
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, `fn deep(n: Int) -> Int { if n == 0 { return 0; } return deep(n - 1); } fn bad() -> Int fails { fail "x"; }
				agent Busy { on start { print("busy"); `+loop+` } }
				agent Other { on start { print("other"); loop { sleep_ms(1); } } }
				supervisor Root { strategy: OneForOne children { Busy { } Other { } } } run Root;`)
			out := output{lines: make(chan string, 10)}
			// An agent that ignores a stop is abandoned after this time.
			in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), Shutdown: time.Minute})
			defer in.Close()
			spec, err := in.Spec()
			if err != nil {
				t.Fatal(err)
			}
			var abandoned atomic.Bool
			spec.OnEvent = func(e supervisor.Event) {
				if _, is := e.(supervisor.ChildAbandoned); is {
					abandoned.Store(true)
				}
			}
			s, err := supervisor.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			<-out.lines
			<-out.lines
			begin := time.Now()
			s.Stop()
			if err := s.Wait(); err != nil || abandoned.Load() {
				t.Errorf("it is still running: %v", err)
			}
			t.Logf("stopped after %v", time.Since(begin))
		})
	}
}

func TestLimits(t *testing.T) {
	small := eval.Limits{Memory: 1 << 20, Calls: 1000, Messages: 10, Agents: 50}
	for name, c := range map[string]struct{ do, limit string }{
		"recursion":      {`print(endless(1));`, "calls"},
		"list":           {`let xs = [0]; loop { xs = push(xs, 1); }`, "memory"},
		"text":           {`let s = "x"; loop { s = s ++ s; }`, "memory"},
		"repeat":         {`let s = str_repeat("abc", 100000000000);`, "memory"},
		"range":          {`let xs = range(0, 100000000000);`, "memory"},
		"pad":            {`let s = str_pad_start("a", 10000000000, "b");`, "memory"},
		"map":            {`let m = {0: 0}; let i = 0; loop { i += 1; m[i] = i; }`, "memory"},
		"hidden":         {`print(hide(0));`, "memory"},
		"linked":         {`let l = List2::Nil; loop { l = List2::Cons(1, l); }`, "memory"},
		"closures":       {`let f = |x: Int| x; loop { let g = f; f = |x: Int| g(x) + 1; }`, "memory"},
		"belief":         {`loop { self.xs = push(self.xs, "abc"); }`, "memory"},
		"messages":       {`let s = summon Deaf { }; loop { try send(s, 1); }`, "messages"},
		"agents":         {`let hs = [summon Deaf { }]; loop { hs = push(hs, summon Deaf { }); }`, "agents"},
		"agents forever": {`let hs = summon Chain { }; try await hs;`, "agents"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, `enum List2 { Nil, Cons(Int, List2) }
				fn endless(n: Int) -> Int { return endless(n + 1) + 1; }
				fn hide(n: Int) -> String { return str_repeat("x", 100000) ++ hide(n + 1); }
				agent Deaf receives Int { on start { sleep_ms(100000); } }
				agent Chain { on start { let next = summon Chain { }; try await next; } on error(e) { } }
				agent Main { xs: List<String> on start { `+c.do+` } on error(e) { print(e.message); } } run Main { xs: [] };`, eval.Options{Limits: small})
			var limit *eval.LimitError
			if !errors.As(err, &limit) || limit.Limit != c.limit || !strings.HasPrefix(limit.Agent, "Main") {
				t.Errorf("%v, want the limit of %s", err, c.limit)
			}
		})
	}
}

// Garbage does not count, and memory is free again after an error.
func TestMemoryIsGivenBack(t *testing.T) {
	got, err := run(t, `fn fill() -> Int { let xs = [0]; loop { xs = push(xs, 1); } return 0; }
		agent Main { on start {
			for i in range(0, 10000) { let s = str_repeat("x", 10000); }
			for i in range(0, 5) { let n = fill() catch { 7 }; print(n); }
		} } run Main;`, eval.Options{Limits: eval.Limits{Memory: 1 << 20}})
	if err != nil || got != strings.Repeat("7\n", 5) {
		t.Errorf("%q, %v", got, err)
	}
}

// All agents of a program share one memory limit and release their part when they end.
func TestProgramMemory(t *testing.T) {
	const program = `
		agent Holder { on start { let s = str_repeat("x", 1000000); print("holds"); sleep_ms(1000); print(len(s)); } on error(e) { print(e.message); } }
		supervisor Root { strategy: OneForOne children { ` +
		`Holder { restart: Temporary } Holder { restart: Temporary } Holder { restart: Temporary } Holder { restart: Temporary } } } run Root;`
	limits := eval.Options{Limits: eval.Limits{Program: 3_500_000}}
	p := compile(t, program)
	synctest.Test(t, func(t *testing.T) { // all sleep before the first one continues
		var out output
		limits.Output = host.NewOutput(&out, &out)
		in := p.New(limits)
		defer in.Close()
		err := in.Run(t.Context())
		want := "holds\nholds\nholds\nRoot/Holder-4: out of memory: all agents of the program together reached the limit of 3500000 bytes\n" +
			strings.Repeat("1000000\n", 3)
		if out.String() != want || err != nil {
			t.Errorf("%s%v", out.String(), err)
		}
	})
	// One after the other they have enough.
	got, err := run(t, `agent Sub { on start { let s = str_repeat("x", 1000000); yield(len(s)); } }
		agent Main { on start { for i in range(0, 10) { let n = try await summon Sub { }; print(n); } } on error(e) { print(e.message); } } run Main;`,
		eval.Options{Limits: eval.Limits{Program: 3_500_000}})
	if err != nil || strings.Count(got, "1000000\n") != 10 {
		t.Errorf("%s%v", got, err)
	}
}

// A number in a slot that held a list is not taken for the length of that list when memory is
// counted.
func TestCountAfterReuse(t *testing.T) {
	const allocate = `let s = str_repeat("x", 100000); print(i + len(s));`
	for name, statements := range map[string]string{
		"let":      `let i = 5; ` + allocate,
		"negative": `let i = -5; ` + allocate,
		"range":    `for i in range(5, 6) { ` + allocate + ` }`,
		"assigned": `let i = 0; i = 5; ` + allocate,
	} {
		t.Run(name, func(t *testing.T) {
			// No machine owns these lists, and they are in the slots of arguments.
			got, err := run(t, `agent Main { @persistent xs: List<Int> on start { print(take(self.xs, 2)); let a = 5; `+statements+` } } run Main;`,
				eval.Options{})
			if err != nil || !strings.HasPrefix(got, "[]\n") {
				t.Errorf("%s%v", got, err)
			}
		})
	}
}
