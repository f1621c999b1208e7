package eval_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// Children start in the order of the program. Whatever the on start of a child does before its
// first wait comes before the next child.
func TestChildrenStartInOrder(t *testing.T) {
	p := compile(t, orderText)
	for range 30 {
		var out output
		in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
		if err := in.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Split(strings.TrimSpace(out.String()), "\n"), ", "); got != "A, wake B, awake B, B, D, E, E rests, F" {
			t.Fatalf("started as %s", got)
		}
	}
}

const orderText = `
agent A { on start { print("A"); yield(0); } }
agent B { @persistent n: Int on waking { print("wake B"); sleep_ms(2); print("awake B"); } on start { self.n += 1; print("B"); } }
agent D { on start { print("D"); sleep_ms(1); } }
agent E { on start { print("E"); } on resting { print("E rests"); } }
agent F { on start { print("F"); } }
supervisor Inner { strategy: OneForAll children { D { restart: Temporary } E { restart: Transient } } }
supervisor S {
	strategy: OneForOne
	children { A { restart: Temporary } B { restart: Temporary } Inner { restart: Transient } F { restart: Temporary } }
}
run S;`

// A group restarts in the order of the program. The on waking of each child is over before the
// next child starts.
func TestGroupsRestartInOrder(t *testing.T) {
	p := compile(t, `
		agent A { on start { print("A"); loop { sleep_ms(1000); } } }
		agent B { @persistent n: Int on waking { print("wake B"); sleep_ms(50); } on start { self.n += 1; print("B"); sleep_ms(1000); if self.n < 3 { fail "lost"; } loop { sleep_ms(1000); } } on error(e) { print("B failed"); } }
		agent C { on start { print("C"); loop { sleep_ms(1000); } } }
		supervisor S { strategy: RestForOne children { A { } B { } C { } } }
		run S;`)
	synctest.Test(t, func(t *testing.T) {
		var out output
		in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
		defer in.Close()
		spec, err := in.Spec()
		if err != nil {
			t.Fatal(err)
		}
		s, err := supervisor.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		want := "A\nwake B\nB\nC\nB failed\nwake B\nB\nC\nB failed\nwake B\nB\nC\n"
		if out.String() != want {
			t.Errorf("started as\n%swant\n%s", out.String(), want)
		}
	})
}

// A temporary child whose on waking fails is not tried again. Others are, up to the limit.
func TestFailedWaking(t *testing.T) {
	for restart, want := range map[string]string{
		"Temporary": "waking\nerror\nnext\n",
		"Transient": "waking\nerror\nwaking\nstart\nnext\n",
	} {
		got, err := run(t, `
			agent A { @persistent n: Int on waking { print("waking"); self.n += 1; if self.n == 1 { fail "no"; } } on start { print("start"); } on error(e) { print("error"); } }
			agent Next { on start { print("next"); } }
			supervisor S { strategy: OneForAll children { A { restart: `+restart+` } Next { restart: Temporary } } } run S;`, eval.Options{})
		if got != want || err != nil {
			t.Errorf("%s: %s%v", restart, got, err)
		}
	}
}
