package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// starts counts the lines of an output.
func starts(text string) map[string]int {
	n := map[string]int{}
	for _, line := range strings.Fields(text) {
		n[line]++
	}
	return n
}

// If one of three children exits and another fails, only the failed one is restarted.
func TestFailedChildRestarts(t *testing.T) {
	got, err := run(t, `
		agent A { on start { print("A"); yield(0); } }
		agent B { @persistent n: Int on start { print("B"); receive_forever(); } }
		agent C { @persistent n: Int on start { print("C"); self.n += 1; if self.n < 2 { fail "once"; } } on error(e) { } }
		fn receive_forever() { sleep_ms(200); }
		supervisor Root { strategy: OneForOne children { A { restart: Temporary } B { restart: Temporary } C { restart: Transient } } }
		run Root;`, eval.Options{})
	if n := starts(got); err != nil || n["A"] != 1 || n["B"] != 1 || n["C"] != 2 {
		t.Errorf("%v, %v", n, err)
	}
}

// A permanent child that exits at once is restarted until the limit.
func TestPermanentChildRestartsUntilLimit(t *testing.T) {
	for range 50 {
		got, err := run(t, `agent A { on start { print("A"); yield(0); } }
			supervisor Root { strategy: OneForOne children { A { restart: Permanent } } } run Root;`, eval.Options{})
		var limit *supervisor.LimitError
		if n := starts(got)["A"]; n != 6 || !errors.As(err, &limit) {
			t.Fatalf("%d starts, want 6: %v", n, err)
		}
	}
}

// A sibling that a group restart stops has ended before its successor starts.
func TestGroupRestartStopsSiblings(t *testing.T) {
	p := compile(t, `
		agent Ticker { on start { print("+"); loop { sleep_ms(1); } } on resting { print("-"); } }
		agent Bad { @persistent n: Int on start { self.n += 1; if self.n <= 3 { sleep_ms(5); fail "bad"; } } on error(e) { } }
		supervisor Root { strategy: OneForAll children { Ticker { restart: Permanent } Bad { restart: Transient } } }
		run Root;`)
	out := output{lines: make(chan string, 100)}
	in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
	defer in.Close()
	s := tree(t, in)
	for range 7 { // four incarnations, three of which have ended
		<-out.lines
	}
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(strings.Fields(out.String()), ""); got != "+-+-+-+-" {
		t.Errorf("%s, want each life over before the next", got)
	}
}

// A nested supervisor that reaches its limit is a failure for its parent.
func TestNestedSupervisors(t *testing.T) {
	got, err := run(t, `
		agent Bad { on start { print("bad"); fail "always"; } on error(e) { } }
		agent Late { on start { print("late"); loop { sleep_ms(1000); } } }
		supervisor Section { strategy: OneForOne children { Bad { restart: Permanent } } }
		supervisor Root { strategy: RestForOne children { Section { restart: Permanent } Late { restart: Permanent } } }
		run Root;`, eval.Options{Limit: supervisor.Escalating(2, time.Minute)})
	n := starts(got)
	if err == nil || n["bad"] != 9 {
		t.Errorf("%v, %v: want 3 lives of the section with 3 starts each", n, err)
	}
}

// A nested supervisor stays when all its children are done, as in OTP. Since nothing in it will
// run again, the program ends.
func TestNestedSupervisorStays(t *testing.T) {
	for _, restart := range []string{"Permanent", "Transient", "Temporary"} {
		got, err := run(t, `
			agent Migrate { on start { print("migrate"); yield(0); } }
			agent Work { on start { sleep_ms(5); print("work"); } }
			supervisor Db { strategy: OneForOne children { Migrate { restart: Transient } } }
			supervisor App { strategy: OneForOne children { Db { restart: `+restart+` } Work { restart: Temporary } } }
			run App;`, eval.Options{})
		if got != "migrate\nwork\n" || err != nil {
			t.Errorf("%s: %s%v", restart, got, err)
		}
	}
}

// An exit through on error is a failure, with or without a yield.
func TestOnErrorIsAFailure(t *testing.T) {
	for _, end := range []string{"yield(-1);", ""} {
		got, err := run(t, `agent A { @persistent n: Int on start { print("A"); self.n += 1; if self.n < 3 { fail "no"; } yield(0); } on error(e) { `+end+` } }
			supervisor Root { strategy: OneForOne children { A { restart: Transient } } } run Root;`, eval.Options{})
		if n := starts(got)["A"]; n != 3 || err != nil {
			t.Errorf("%q: %d starts, want 3; %v", end, n, err)
		}
	}
}

// on resting runs at each stop, for the last child first, and is cut short after the time for a
// stop.
func TestOnResting(t *testing.T) {
	p := compile(t, `
		agent A { on start { print("a"); loop { } } on resting { print("rest a"); } }
		agent B { on start { print("b"); sleep_ms(100000); } on resting { print("rest b"); loop { } } }
		agent C receives Int { on message(n: Int) { print(n); } on resting { print("rest c"); } }
		agent D { on start { print("d"); } on resting { print("rest d"); } }
		supervisor Root { strategy: OneForOne children { A { } B { } C { } D { restart: Temporary } } } run Root;`)
	out := output{lines: make(chan string, 100)}
	in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), Shutdown: 3 * time.Second})
	defer in.Close()
	s := tree(t, in)
	for range 4 {
		<-out.lines
	}
	s.Stop() // the on resting of B never returns
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(out.String(), "\n")
	var rest []string
	for _, l := range lines {
		if strings.HasPrefix(l, "rest") && l != "rest d" {
			rest = append(rest, l)
		}
	}
	if got := strings.Join(rest, ", "); got != "rest c, rest b, rest a" || !strings.Contains(out.String(), "rest d") {
		t.Errorf("%s", out.String())
	}
}

// The trace shows the actions of supervisors and agents.
func TestTrace(t *testing.T) {
	var trace output
	_, err := run(t, `agent A { on start { trace("hello"); span "work" { let n = 1; } yield(0); } }
		supervisor Root { strategy: OneForOne children { A { } } } run Root;`, eval.Options{Trace: &trace})
	if err == nil {
		t.Error("no error")
	}
	for _, kind := range []string{`"kind":"user"`, `"message":"hello"`, `"kind":"span.start"`, `"kind":"span.end"`, "duration_ms",
		`"kind":"supervisor.start"`, `"kind":"supervisor.child.restart"`, `"kind":"supervisor.circuit_breaker"`, `"kind":"agent.start"`, `"t":`} {
		if !strings.Contains(trace.String(), kind) {
			t.Errorf("no %s in\n%s", kind, trace.String())
		}
	}
}

// The trace is in the order of events: a supervisor starts before its children, and a restart
// comes before the events of the new incarnation. An agent that runs alone has no supervisor in
// the trace.
func TestTraceOrder(t *testing.T) {
	kinds := func(program string) string {
		var trace output
		if _, err := run(t, program, eval.Options{Trace: &trace}); err == nil {
			t.Error("no limit")
		}
		var all []string
		for line := range strings.Lines(trace.String()) {
			var e struct{ Kind, Agent string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e.Kind+" "+e.Agent)
		}
		return strings.Join(all, "\n")
	}
	got := kinds(`agent A { on start { fail "no"; } on error(e) { } }
		supervisor Inner { strategy: OneForOne children { A { restart: Permanent } } }
		supervisor Root { strategy: OneForOne children { Inner { restart: Permanent } } } run Root;`)
	if !strings.HasPrefix(got, "supervisor.start Root\nsupervisor.start Root/Inner\nagent.start Root/Inner/A\nagent.end Root/Inner/A\n"+
		"supervisor.child.restart Root/Inner/A\nagent.start Root/Inner/A\n") {
		t.Error(got)
	}
	for event, want := range map[string]int{"supervisor.start Root\n": 1, "supervisor.start Root/Inner\n": 6, "supervisor.child.restart Root/Inner\n": 5} {
		if n := strings.Count(got, event); n != want {
			t.Errorf("%d times %s, want %d", n, event, want)
		}
	}
	if got := kinds(`agent A { on start { fail "no"; } on error(e) { } } run A;`); got != "agent.start A/A\nagent.end A/A" {
		t.Error(got)
	}
}

// Supervised agents have a mailbox. Summoned agents run on waking and on resting.
func TestMailboxAndHooks(t *testing.T) {
	got, err := run(t, `
		agent Echo receives Int { @persistent n: Int on waking { print("waking"); } on start { print("start"); } on message(n: Int) { print(n); if n == 2 { fail "over"; } } on error(e) { } on resting { print("resting"); } }
		agent Main { on start { let e = summon Echo { }; try send(e, 1); try send(e, 2); let r = try await e; } on error(e) { print(e.kind); } }
		run Main;`, eval.Options{})
	if got != "waking\nstart\n1\n2\nresting\nAgent\n" || err == nil {
		t.Errorf("%s%v", got, err)
	}
}

// Mocks answer questions to models, and typed answers have their type.
func TestTypedMocks(t *testing.T) {
	p, info := compileWithInfo(t, `record City { name: String, size: Int }
		agent Asker { on start { let c: City = try divine("which?" -> City); yield(c.size); } on error(e) { yield(-1); } }
		test "typed" { mock divine -> City { name: "Ulm", size: 3 }; let c: City = try divine("which?" -> City); assert_eq(c.size, 3); }
		test "text" { mock divine -> "hello"; assert_eq(try divine("say"), "hello"); }
		test "in an agent" { mock divine -> City { name: "Ulm", size: 4 }; assert_eq(try await (summon Asker { }), 4); }
		test "wrong" { mock divine -> "no json"; let c: City = try divine("which?" -> City); }
		test "no mock" { let s = try divine("x"); }`)
	var failed []string
	for i := range info.Tests {
		if r := p.Test(t.Context(), i, eval.Options{}, 0); r.Err != nil {
			failed = append(failed, r.Name)
		}
	}
	if got := fmt.Sprint(failed); got != "[wrong no mock]" {
		t.Errorf("failed: %s", got)
	}
}

// The time of a program is that of a test's bubble, so hours pass at once.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got, err := runInBubble(t, `agent Slow { on start { sleep_ms(3600000); yield(1); } }
			agent Main { on start {
				let n = 0;
				let r = retry(4, delay: 1000) { n += 1; if n < 4 { fail "again"; } n } catch { 0 };
				print(r);
				let s = summon Slow { };
				let v = await s timeout(1000) catch(e) { print(e.kind); 0 };
				print(try await s);
			} on error(e) { print(e.message); } } run Main;`)
		if got != "4\nTimeout\n1\n" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if d := time.Since(begin); d != time.Hour+3*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func runInBubble(t *testing.T, text string) (string, error) {
	var out output
	in := compile(t, text).New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
	defer in.Close()
	err := in.Run(context.Background())
	return out.String(), err
}

// Pause holds messages back until Resume. The agent runs on pause and on resume.
func TestPause(t *testing.T) {
	p := compile(t, `agent A receives Int { on start { print("start"); } on message(n: Int) { print(n); } on pause { print("pause"); } on resume { print("resume"); } }
		run A;`)
	out := output{lines: make(chan string, 10)}
	in := p.New(eval.Options{Name: "app", Output: host.NewOutput(&out, io.Discard)})
	defer in.Close()
	s := tree(t, in)
	next := func(want string) {
		t.Helper()
		if got := <-out.lines; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	next("start")
	in.Pause(t.Context())
	next("pause")
	in.Resume()
	next("resume")
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// Children in quotes are made by the host of the program.
func TestProcessChildren(t *testing.T) {
	p := compile(t, `agent A { on start { print("A"); } } supervisor S { strategy: OneForOne children { A { restart: Temporary } "worker" { restart: Transient } } } run S;`)
	if _, err := p.New(eval.Options{}).Spec(); err == nil || !strings.Contains(err.Error(), "main.sg:1:109") || !strings.Contains(err.Error(), "worker") {
		t.Errorf("without a project: %v", err)
	}
	ran := make(chan string, 1)
	in := p.New(eval.Options{Process: func(name string) (supervisor.ChildSpec, error) {
		return supervisor.ChildSpec{ID: name, Run: func(ctx context.Context) error {
			self, _ := supervisor.SelfOf(ctx)
			ran <- self.Path
			return nil
		}}, nil
	}})
	defer in.Close()
	if err := in.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := <-ran; got != "S/worker" {
		t.Errorf("%s", got)
	}
}

// A stop does not wait for input, and no input is lost by it.
func TestInput(t *testing.T) {
	r, w := io.Pipe()
	p := compile(t, `agent A { on start { print("reading"); let s = try read_line(); print("A " ++ s); } on error(e) { } } 
		agent B { on start { print("reading"); let s = try read_line(); print("B " ++ s); } on error(e) { } }
		supervisor S { strategy: OneForOne children { A { restart: Transient } B { restart: Transient } } } run S;`)
	out := output{lines: make(chan string, 10)}
	in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), In: r})
	defer in.Close()
	s := tree(t, in)
	<-out.lines
	<-out.lines
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	s = tree(t, in)
	<-out.lines
	<-out.lines
	for _, line := range []string{"one\n", "two\r\n"} {
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
	}
	got := []string{(<-out.lines)[2:], (<-out.lines)[2:]}
	slices.Sort(got)
	if fmt.Sprint(got) != "[one two]" {
		t.Errorf("%q", got)
	}
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// A stop passes any number of catches.
func TestStopInsideCatches(t *testing.T) {
	p := compile(t, `fn deep(n: Int) -> Int { if n == 0 { print_it(); loop { } } return deep(n - 1) catch { 0 }; }
		fn print_it() { print("down"); }
		fn failing(n: Int) -> Int fails { if n == 0 { fail "x"; } return try failing(n - 1); }
		fn odd(n: Int) -> Int fails { if n == 0 { fail "x"; } return 1 + match try odd(n - 1) { 0 => { return 3; } k => k }; }
		agent A { on start { let x = failing(9000) catch { 0 }; let z = odd(9000) catch { 1 }; let y = deep(9000); } } run A;`)
	out := output{lines: make(chan string, 10)}
	in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), Shutdown: 2 * time.Minute})
	defer in.Close()
	s := tree(t, in)
	<-out.lines
	begin := time.Now()
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %v", time.Since(begin))
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("the stop took %v", d)
	}
}
