package supervisor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func (w *world) fail(what string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// both is for calls that return an info too.
func only(_ ChildInfo, err error) error { return err }

func TestOTPAdministration(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"3.1 start of a running child": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.fail("start", only(w.StartChild(w.call(), w.kids("a")[0])), ErrAlreadyStarted)
		},
		"3.2 terminate": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.fail("unknown", w.TerminateChild(w.call(), "b"), ErrNotFound)
			w.fail("running", w.TerminateChild(w.call(), "a"), nil)
			w.want("+a +root -a")
			i, err := w.Child("a")
			if err != nil || i.State != Stopped || i.LastExit.Kind != ShutDown {
				t.Errorf("%+v, %v", i, err)
			}
			w.wantCounts(1, 0, 0, 1)
			w.fail("again", w.TerminateChild(w.call(), "a"), nil)
		},
		"3.3 start of a child that is present": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.TerminateChild(w.call(), "a")
			w.fail("start", only(w.StartChild(w.call(), w.kids("a")[0])), ErrAlreadyPresent)
		},
		"3.4 restart": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.TerminateChild(w.call(), "a")
			i, err := w.RestartChild(w.call(), "a")
			if err != nil || i.Incarnation != 2 || i.State != Running || i.Restarts != 0 {
				t.Errorf("%+v, %v", i, err)
			}
			w.fail("running", only(w.RestartChild(w.call(), "a")), ErrRunning)
			w.fail("unknown", only(w.RestartChild(w.call(), "b")), ErrNotFound)
		},
		"3.5 delete": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.fail("running", w.DeleteChild("a"), ErrRunning)
			w.fail("unknown", w.DeleteChild("b"), ErrNotFound)
			w.TerminateChild(w.call(), "a")
			w.fail("stopped", w.DeleteChild("a"), nil)
			w.fail("restart", only(w.RestartChild(w.call(), "a")), ErrNotFound)
			w.wantCounts(0, 0, 0, 0)
		},
		"3.7 calls on a supervisor that has ended": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.Stop()
			<-w.Done()
			w.fail("start", only(w.StartChild(w.call(), w.kids("b")[0])), ErrNoSupervisor)
			w.fail("instance", only(w.StartInstance(w.call(), "b", nil)), ErrNoSupervisor)
			w.fail("terminate", w.TerminateChild(w.call(), "a"), ErrNoSupervisor)
			w.fail("suspend", w.SuspendChild(w.call(), "a"), ErrNoSupervisor)
			w.fail("restart", only(w.RestartChild(w.call(), "a")), ErrNoSupervisor)
			w.fail("delete", w.DeleteChild("a"), ErrNoSupervisor)
			w.fail("reset", w.Reset("a"), ErrNoSupervisor)
			w.fail("resume", w.Resume(), ErrNoSupervisor)
			w.fail("child", only(w.Child("a")), ErrNoSupervisor)
			w.fail("update", w.Update(context.Background(), Spec{}), ErrNoSupervisor)
			_, err := w.Children()
			w.fail("children", err, ErrNoSupervisor)
			_, err = w.Count()
			w.fail("count", err, ErrNoSupervisor)
			_, err = w.ChildSpec("a")
			w.fail("spec", err, ErrNoSupervisor)
			w.Stop()
			w.Kill()
		},
		"3.9 the calls of a pool": func(t *testing.T, w *world) {
			w.up(pool(w.byID("")))
			w.must(w.StartInstance(w.call(), "a", nil))
			w.must(w.StartInstance(w.call(), "b", nil))
			w.wantList("a running, b running")
			w.wantCounts(1, 2, 0, 2)
			w.fail("start", only(w.StartChild(w.call(), w.kids("c")[0])), ErrSimpleOneForOne)
			w.fail("the same", only(w.StartInstance(w.call(), "a", nil)), ErrAlreadyStarted)
			w.fail("restart", only(w.RestartChild(w.call(), "a")), ErrSimpleOneForOne)
			w.fail("delete", w.DeleteChild("a"), ErrSimpleOneForOne)
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.fail("a stranger", w.TerminateChild(w.call(), "x"), ErrNotFound)
			w.wantList("b running")
		},
		"3.9 instances are for pools": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			if err := only(w.StartInstance(w.call(), "a", nil)); err == nil {
				t.Error("one_for_one has an instance")
			}
			w = newWorld(t)
			w.up(pool(w.byID("")))
			var bad *SpecError
			for _, id := range []string{"", "a/b"} {
				if err := only(w.StartInstance(w.call(), id, nil)); !errors.As(err, &bad) || bad.Field != "ID" {
					t.Errorf("%q: %v", id, err)
				}
			}
		},
		"3.11 listing, at every stage, in start order": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			w.wantList("")
			w.must(w.StartChild(w.call(), w.kids("a")[0]))
			w.must(w.StartChild(w.call(), w.kids("b")[0]))
			w.wantList("a running, b running")
			w.TerminateChild(w.call(), "a")
			w.wantList("a stopped, b running")
			w.DeleteChild("a")
			w.fail("deleted", only(w.Child("a")), ErrNotFound)
			w.wantList("b running")
		},
		"3.12 an instance": func(t *testing.T, w *world) {
			w.up(pool(w.byID("")))
			w.must(w.StartInstance(w.call(), "a", "argument"))
			i, err := w.Child("a")
			if err != nil || i.State != Running || i.Arg != "argument" {
				t.Errorf("%+v, %v", i, err)
			}
		},
		"3.13 two thousand instances": func(t *testing.T, w *world) { manyInstances(t, w, Worker) },
		"3.14 two thousand of type supervisor": func(t *testing.T, w *world) {
			manyInstances(t, w, SupervisorType)
		},
		"3.15 counts while instances are restarting": func(t *testing.T, w *world) {
			spec := pool(w.byID("ready"))
			spec.Children[0].Backoff = Backoff{Kind: Fixed}
			spec.Limit.Max = Unlimited
			w.up(spec)
			for _, id := range []string{"a", "b", "c"} {
				w.must(w.StartInstance(w.call(), id, nil))
			}
			w.wantCounts(1, 3, 0, 3)
			w.fails("a", errBoom, 2, 3)
			w.fails("b", errBoom, 2, 3)
			w.crash("a", "b")
			w.wantCounts(1, 1, 0, 3)
			w.wantList("a restarting, b restarting, c running")
			w.pass(3 * time.Second)
			w.wantCounts(1, 3, 0, 3)
			for i, id := range []string{"a", "b", "c"} {
				w.fail(id, w.TerminateChild(w.call(), id), nil)
				w.wantCounts(1, 2-i, 0, 2-i)
			}
		},
		"3.17 start of a child that is restarting": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a:fixed"))
			w.crash("a")
			w.fail("start", only(w.StartChild(w.call(), w.kids("a")[0])), ErrAlreadyPresent)
		},
	})
}

func manyInstances(t *testing.T, w *world, typ ChildType) {
	crash := make(chan struct{})
	template := ChildSpec{ID: "t", Restart: Temporary, Type: typ, Run: func(ctx context.Context) error {
		select {
		case <-crash:
			return errBoom
		case <-ctx.Done():
			return nil
		}
	}}
	w.up(pool(template))
	counts := func(active int) {
		t.Helper()
		if typ == Worker {
			w.wantCounts(1, active, 0, active)
		} else {
			w.wantCounts(1, active, active, 0)
		}
	}
	for n := range 2000 {
		if n == 1000 {
			counts(1000)
		}
		if _, err := w.StartInstance(context.Background(), fmt.Sprint(n), nil); err != nil {
			t.Fatal(err)
		}
	}
	counts(2000)
	if a, b := w.list(), w.list(); a != b {
		t.Error("two listings differ")
	}
	close(crash)
	counts(0)
	w.wantAlive()
}

// Group 5: what an exit means, over the whole loop.
func TestOTPRestartTypes(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"5.1 permanent": func(t *testing.T, w *world) {
			for n, err := range []error{nil, ErrShutdown, fmt.Errorf("done: %w", ErrShutdown), errBoom} {
				w := newWorld(t)
				w.up(w.tree(OneForOne, "a"))
				w.exit(err, "a")
				i, _ := w.Child("a")
				if i.Incarnation != 2 || i.State != Running {
					t.Errorf("%d: %+v", n, i)
				}
				w.wantCounts(1, 1, 0, 1)
			}
		},
		"5.2 transient, clean": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a:transient"))
			for _, err := range []error{nil, ErrShutdown, fmt.Errorf("done: %w", ErrShutdown)} {
				w.exit(err, "a")
				w.wantList("a stopped")
				w.wantCounts(1, 0, 0, 1)
				w.must(w.RestartChild(w.call(), "a"))
			}
		},
		"5.3 transient, failed": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a:transient"))
			w.crash("a")
			w.wantList("a running")
			w.want("+a +root !a +a")
		},
		"5.4 temporary": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			for _, err := range []error{nil, ErrShutdown, errBoom} {
				w.must(w.StartChild(w.call(), w.kids("a:temporary")[0]))
				w.exit(err, "a")
				w.wantCounts(0, 0, 0, 0)
			}
		},
		"5.5 temporary bystanders": func(t *testing.T, w *world) {
			for _, s := range []Strategy{OneForAll, RestForOne} {
				w := newWorld(t)
				w.up(w.tree(s, "a", "b:temporary"))
				w.crash("a")
				w.wantList("a running")
				w.want("+a +b +root !a -b +a")
			}
		},
		"5.6 a restart is reported as one": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.crash("a")
			w.TerminateChild(w.call(), "a")
			w.must(w.RestartChild(w.call(), "a"))
			var restarts []bool
			for _, e := range w.seen() {
				if e, ok := e.(ChildStarted); ok {
					restarts = append(restarts, e.Restart)
				}
			}
			if got := fmt.Sprint(restarts); got != "[false true false]" {
				t.Error(got)
			}
		},
		"5.8 what is kept of each type": func(t *testing.T, w *world) {
			for _, s := range []Strategy{OneForOne, OneForAll, RestForOne} {
				w := newWorld(t)
				spec := w.tree(s, "p", "t:transient", "x:temporary")
				spec.Limit.Max = Unlimited
				w.up(spec)
				w.TerminateChild(w.call(), "p")
				w.exit(nil, "t", "x")
				w.fail("permanent", only(w.StartChild(w.call(), w.kids("p")[0])), ErrAlreadyPresent)
				w.fail("transient", only(w.StartChild(w.call(), w.kids("t:transient")[0])), ErrAlreadyPresent)
				w.must(w.StartChild(w.call(), w.kids("x:temporary")[0]))
				w.crash("x")
				w.must(w.StartChild(w.call(), w.kids("x:temporary")[0]))
				w.TerminateChild(w.call(), "x")
				w.must(w.StartChild(w.call(), w.kids("x:temporary")[0]))
			}
		},
	})
}

// Group 9. The growth of the time is in the benchmark; here it has to end.
func TestOTPScale(t *testing.T) {
	many := 100_000
	if testing.Short() {
		many = 10_000
	}
	run := func(ctx context.Context) error { <-ctx.Done(); return nil }
	t.Run("9.1 temporary instances", func(t *testing.T) {
		s, err := Start(context.Background(), pool(ChildSpec{ID: "t", Restart: Temporary, Run: run}))
		if err != nil {
			t.Fatal(err)
		}
		scale(t, s, many, func(id string) error { return only(s.StartInstance(context.Background(), id, nil)) }, func(string) error { return nil })
	})
	t.Run("9.2 children", func(t *testing.T) {
		s, err := Start(context.Background(), Spec{})
		if err != nil {
			t.Fatal(err)
		}
		scale(t, s, many, func(id string) error {
			return only(s.StartChild(context.Background(), ChildSpec{ID: id, Run: run}))
		}, s.DeleteChild)
	})
	t.Run("all at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			spec := Spec{Strategy: OneForAll}
			for n := range many / 10 {
				spec.Children = append(spec.Children, ChildSpec{ID: fmt.Sprint(n), Run: run})
			}
			fail := make(chan struct{})
			spec.Children[7].Run = func(ctx context.Context) error {
				select {
				case <-fail:
					return errBoom
				case <-ctx.Done():
					return nil
				}
			}
			s, err := Start(context.Background(), spec)
			if err != nil {
				t.Fatal(err)
			}
			fail <- struct{}{}
			synctest.Wait()
			for _, id := range []string{"0", "7", fmt.Sprint(many/10 - 1)} {
				if i, err := s.Child(id); err != nil || i.Incarnation != 2 || i.State != Running {
					t.Errorf("%s: %+v, %v", id, i, err)
				}
			}
			s.Stop()
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		})
	})
}

func scale(t *testing.T, s *Supervisor, many int, start, remove func(string) error) {
	for n := range many {
		if err := start(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := s.Count(); n.Active != many {
		t.Errorf("%+v", n)
	}
	for n := range many {
		id := fmt.Sprint(n)
		if err := s.TerminateChild(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		if err := remove(id); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Children()
	if err != nil || len(all) != 0 {
		t.Errorf("%d left, %v", len(all), err)
	}
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}
