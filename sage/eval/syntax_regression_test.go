package eval_test

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// Programs that other implementations of the language reject or misread.
func TestSyntaxRegressions(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"minus":        {`agent A { on start { let n = 5; let m = n-1; print("{n-1} {m -1} {-m}"); } } run A;`, "4 3 -4\n"},
		"empty blocks": {`agent A { on start { let ready = true; let xs = [1]; if ready {} for x in xs {} while !ready {} if ready {} else {} print("end"); } } run A;`, "end\n"},
		"errors": {`agent B { on start { fail "no"; } on error(e) { match e.kind { ErrorKind.User => print("user: {e.message}"), _ => print("other") } yield(1); } }
			supervisor S { strategy: OneForOne children { B { restart: Temporary } } } run S;`, "user: no\n"},
		"blocks in match": {`agent A { on start { let n = 0; loop { match n { 3 => break, k => { n = k + 1; print(n); } } } } } run A;`, "1\n2\n3\n"},
		"catch": {`fn g(n: Int) -> Int fails { if n < 0 { fail "negative"; } return n; }
			agent A { on start { let a = catch g(-1) { 2 }; let b = catch g(-1) as e { len(e.message) }; let c = g(-1) catch { 3 }; let d = g(-1) catch(e) { len(e.message) + 1 }; let f = try g(4) catch { 0 }; print("{a} {b} {c} {d} {f}"); } } run A;`, "2 8 3 9 4\n"},
		"await summon": {`agent B { on start { yield(41); } } agent A { on start { print(1 + try await summon B {}); } on error(e) {} } run A;`, "42\n"},
		"closures":     {`agent A { on start { let f = |x: Int| { let y = x * 2; if y > 3 { return 3; } y }; print("{f(1)} {f(2)}"); } } run A;`, "2 3\n"},
		"Result":       {`fn f(ok: Bool) -> Result<Int, String> { if ok { return Ok(1); } return Err("no"); } agent A { on start { match f(false) { Ok(n) => print(n), Err(s) => print(s) } } } run A;`, "no\n"},
		"variants":     {`enum M { Stop(Int), Task } fn f(m: M) -> String { return match m { Task => "task", Stop(n) => "stop {n}" }; } agent A { on start { print(f(Stop(2))); print(f(Task)); print(f(M::Task)); } } run A;`, "stop 2\ntask\ntask\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := run(t, c.text, eval.Options{}); got != c.want || err != nil {
				t.Errorf("%q, want %q; %v", got, c.want, err)
			}
		})
	}
}

// A restart costs the same with any number of siblings. The test measures the CPU time of this
// process. Its bound is far below the cost of visiting ten thousand siblings at every exit.
func TestRestartCostWithManySiblings(t *testing.T) {
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	cost := func(siblings int) time.Duration {
		const restarts = 20_000
		idle := strings.Repeat("Idle { }\n", siblings)
		p := compile(t, fmt.Sprintf(`agent Idle receives Int { on start { print("idle"); } on message(n: Int) { } }
			agent Restless { @persistent n: Int on start { self.n += 1; if self.n > %d { print("done"); loop { sleep_ms(100000); } } } }
			supervisor S { strategy: OneForOne children { %s Restless { restart: Permanent } } } run S;`, restarts, idle))
		out := output{lines: make(chan string, siblings+10)}
		in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), Limit: supervisor.Escalating(supervisor.Unlimited, time.Minute)})
		defer in.Close()
		before := spent()
		s := tree(t, in)
		for range siblings + 1 {
			<-out.lines
		}
		used := spent() - before
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		return used
	}
	few, many := cost(10), cost(10_000)
	t.Logf("%v with 10 siblings, %v with 10,000", few, many)
	if many > 10*few+5*time.Second {
		t.Errorf("%v with 10 siblings, %v with 10,000", few, many)
	}
}

// A call inside of an interpolation is a call.
func TestCallsInStrings(t *testing.T) {
	got, err := run(t, `agent Main { @persistent n: Int on start { self.n.set(3); print("v{self.n.get()} {len([1])}"); } } run Main;`, eval.Options{})
	if got != "v3 1\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// An error that is joined to text becomes its message. Empty braces are text.
func TestTextOfErrors(t *testing.T) {
	prints(t, `let e = catch parse(); match e { Err(e) => { print("no: " ++ e ++ "!"); print(e ++ ""); } Ok(n) => print(n) }
		print("{}"); print("a{}b{1 + 1}"); print("straße".to_upper());
		} } fn parse() -> Int fails { fail "bad"; } agent Other { on start { print("x");`,
		"no: bad!\nbad\n{}\na{}b2\nSTRASSE")
}

// on start needs no yield.
func TestStartNeedsNoYield(t *testing.T) {
	got, err := run(t, `agent A { on start { print("A"); } } supervisor Root { strategy: OneForOne children { A { restart: Transient } } } run Root;`, eval.Options{})
	if got != "A\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A function that can fail can return a value.
func TestFallibleReturn(t *testing.T) {
	got, err := run(t, `fn f(n: Int) -> Int fails { return n; } agent A { on start { print(f(3) catch { 0 }); } } run A;`, eval.Options{})
	if got != "3\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
