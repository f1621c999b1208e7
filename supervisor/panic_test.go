package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func explode() { panic(errBoom) }

// exitAfter runs f as a temporary child and returns how it ended.
func (w *world) exitAfter(f func(context.Context) error) Exit {
	w.t.Helper()
	w.up(Spec{Children: []ChildSpec{{ID: "a", Restart: Transient, Limit: GivingUp(0), Run: f}}})
	for _, e := range w.seen() {
		if e, ok := e.(ChildExited); ok {
			return e.Exit
		}
	}
	w.t.Error("no exit")
	return Exit{}
}

// evil is an error whose methods panic.
type evil struct{}

func (evil) Error() string { panic("evil Error") }
func (evil) Is(error) bool { panic("evil Is") }

// rogue is a process that misbehaves.
type rogue struct {
	*fake
	onWait func()
}

func (r *rogue) Wait() Exit {
	r.onWait()
	return r.fake.Wait()
}

func TestPanics(t *testing.T) {
	start := func(p Process) ChildSpec {
		return ChildSpec{ID: "x", Restart: Transient, Limit: GivingUp(0), Start: func(context.Context) (Process, error) { return p, nil }}
	}
	cases(t, map[string]func(*testing.T, *world){
		"the stack begins where it happened": func(t *testing.T, w *world) {
			exit := w.exitAfter(func(context.Context) error { explode(); return nil })
			var p *PanicError
			if exit.Kind != Panicked || !errors.As(exit.Err, &p) || p.Value != errBoom || !errors.Is(p, errBoom) {
				t.Fatalf("%v", exit)
			}
			first, _, _ := strings.Cut(p.Stack(), "\n")
			if !strings.HasSuffix(first, "supervisor.explode()") {
				t.Errorf("first frame %s of\n%s", first, p.Stack())
			}
			if !strings.Contains(p.Stack(), "panic_test.go:") {
				t.Error(p.Stack())
			}
			if p.Error() != "panic: boom" {
				t.Error(p.Error())
			}
		},
		"of the runtime": func(t *testing.T, w *world) {
			var m map[string]int
			exit := w.exitAfter(func(context.Context) error { m["x"] = 1; return nil })
			var p *PanicError
			var e runtime.Error
			if exit.Kind != Panicked || !errors.As(exit.Err, &p) || !errors.As(exit.Err, &e) || !strings.Contains(p.Stack(), "TestPanics") {
				t.Errorf("%v", exit)
			}
		},
		"with nil": func(t *testing.T, w *world) {
			exit := w.exitAfter(func(context.Context) error { panic(nil) })
			var e *runtime.PanicNilError
			if exit.Kind != Panicked || !errors.As(exit.Err, &e) {
				t.Errorf("%v", exit)
			}
		},
		"in a deferred function, after another": func(t *testing.T, w *world) {
			exit := w.exitAfter(func(context.Context) error {
				defer func() { panic("second") }()
				panic("first")
			})
			var p *PanicError
			if !errors.As(exit.Err, &p) || p.Value != "second" {
				t.Errorf("%v", exit)
			}
		},
		"goexit": func(t *testing.T, w *world) {
			exit := w.exitAfter(func(context.Context) error { runtime.Goexit(); return nil })
			if exit.Kind != Panicked || !errors.Is(exit.Err, ErrGoexit) {
				t.Errorf("%v", exit)
			}
		},
		"in a start": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			c := ChildSpec{ID: "x", Start: func(context.Context) (Process, error) { explode(); return nil, nil }}
			err := only(w.StartChild(w.call(), c))
			var p *PanicError
			if !errors.As(err, &p) || !strings.HasSuffix(strings.SplitN(p.Stack(), "\n", 2)[0], "supervisor.explode()") {
				t.Error(err)
			}
			c.Start = func(context.Context) (Process, error) { runtime.Goexit(); return nil, nil }
			w.fail("goexit", only(w.StartChild(w.call(), c)), ErrGoexit)
			w.wantList("a running")
		},
		"before it is ready": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			var p *PanicError
			if err := only(w.StartChild(w.call(), ChildSpec{ID: "x", WaitReady: true, Run: func(context.Context) error { explode(); return nil }})); !errors.As(err, &p) {
				t.Error(err)
			}
		},
		"an error that panics when it is looked at": func(t *testing.T, w *world) {
			w.up(Spec{Limit: Limit{Max: Unlimited}, Children: w.kids("a")})
			w.exit(evil{}, "a")
			w.wantList("a running")
			w.actor("a").answer = evil{}
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			c := ChildSpec{ID: "x", Start: func(context.Context) (Process, error) { return nil, evil{} }}
			if err := only(w.StartChild(w.call(), c)); err == nil {
				t.Error("started")
			}
			w.wantList("a stopped")
		},
		"a typed nil process": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.StartChild(w.call(), start((*fake)(nil)))
			w.crash("a")
			w.wantList("a running, x given_up")
		},
		"in the methods of a process": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			p := &rogue{fake: newFake(), onWait: explode}
			w.must(w.StartChild(w.call(), start(p)))
			p.end(fine)
			w.wantList("a running, x given_up")
			if i, _ := w.Child("x"); i.LastExit.Kind != Panicked {
				t.Errorf("%+v", i)
			}
		},
		"goexit in the methods of a process": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			p := &rogue{fake: newFake(), onWait: runtime.Goexit}
			w.must(w.StartChild(w.call(), start(p)))
			p.end(fine)
			w.wantList("a running, x given_up")
		},
		"in stop and kill": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			p := newFake()
			p.onStop = func(*fake) { explode() }
			p.onKill = func(p *fake) { p.end(Exit{Kind: Killed}); explode() }
			w.must(w.StartChild(w.call(), start(p)))
			w.fail("terminate", w.TerminateChild(w.call(), "x"), nil)
			if s := p.signals(); s != "1 stops, 1 kills" {
				t.Error(s)
			}
		},
	})
}

func TestPanicValuesAreText(t *testing.T) {
	for _, v := range []any{1, "x", errBoom, nil, struct{}{}, evil{}} {
		if s := fmt.Sprint(&PanicError{Value: v}); s == "" {
			t.Errorf("%v has no text", v)
		}
	}
	if s := new(PanicError).Stack(); s != "" {
		t.Error(s)
	}
}
