package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func withMax(s Spec, max int) Spec { s.Limit.Max = max; return s }

// wantLimit: the supervisor has ended because of its limit.
func (w *world) wantLimit(child string) {
	w.t.Helper()
	w.wantEnd(Failure)
	var limit *LimitError
	if err := w.Wait(); !errors.As(err, &limit) || limit.Child != child {
		w.t.Errorf("ended with %v, want a limit reached by %s", err, child)
	}
}

func TestOTPStrategies(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"6.1 one_for_one": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b"))
			w.crash("a", "b")
			w.want("+a +b +root !a +a !b +b")
			w.wantCounts(2, 2, 0, 2)
			w.crash("a")
			w.wantLimit("a")
			w.want("!a -b -root")
		},
		"6.2 one_for_one, a restart that goes on failing": func(t *testing.T, w *world) {
			w.fails("a", errBoom, 2, 3, 4, 5, 6, 7)
			w.up(withMax(w.tree(OneForOne, "a:ready", "b"), 4))
			w.crash("a")
			w.wantLimit("a")
			w.want("+a +b +root !a ?a ?a ?a ?a -b -root")
		},
		"6.3 restarts that have left the window": func(t *testing.T, w *world) {
			spec := w.tree(OneForOne, "a")
			spec.Limit = Escalating(1, time.Second)
			w.up(spec)
			for range 4 {
				w.crash("a")
				w.pass(2100 * time.Millisecond)
			}
			w.wantAlive()
		},
		"6.4 one_for_all": func(t *testing.T, w *world) {
			w.up(w.tree(OneForAll, "a", "b"))
			w.crash("a", "b")
			w.want("+a +b +root !a -b +a +b !b -a +a +b")
			w.wantCounts(2, 2, 0, 2)
			w.crash("a")
			w.wantLimit("a")
			w.want("!a -b -root")
		},
		"6.5 one_for_all, a restart that goes on failing": func(t *testing.T, w *world) {
			w.fails("b", errBoom, 2, 3, 4, 5, 6, 7)
			w.up(withMax(w.tree(OneForAll, "a:ready", "b:ready"), 4))
			w.crash("a")
			w.wantLimit("b")
			w.want("+a +b +root !a -b +a ?b -a +a ?b -a +a ?b -a +a ?b -a -root")
		},
		"6.6 one_for_all, another child's restart fails once": func(t *testing.T, w *world) {
			w.fails("b", errBoom, 2)
			w.up(w.tree(OneForAll, "a", "b:ready"))
			w.crash("a")
			w.want("+a +b +root !a -b +a ?b -a +a +b")
		},
		"6.7 rest_for_one": func(t *testing.T, w *world) {
			w.up(w.tree(RestForOne, "a", "b", "c"))
			w.crash("b")
			w.want("+a +b +c +root !b -c +b +c")
			w.crash("c")
			w.want("!c +c")
			w.crash("b")
			w.wantLimit("b")
			w.want("!b -c -a -root")
		},
		"6.8 rest_for_one, a restart that goes on failing": func(t *testing.T, w *world) {
			w.fails("b", errBoom, 2, 3, 4, 5, 6, 7)
			w.up(withMax(w.tree(RestForOne, "a", "b:ready"), 4))
			w.crash("a")
			w.wantLimit("b")
		},
		"6.9 rest_for_one, another child's restart fails once": func(t *testing.T, w *world) {
			w.fails("b", errBoom, 2)
			w.up(w.tree(RestForOne, "a", "b:ready", "c"))
			w.crash("a")
			w.want("+a +b +c +root !a -c -b +a ?b +b +c")
		},
		"6.10 instances keep their arguments": func(t *testing.T, w *world) {
			var args []any
			w.up(pool(ChildSpec{ID: "t", Run: func(ctx context.Context) error {
				self, _ := SelfOf(ctx)
				args = append(args, self.Arg)
				return w.actor(self.ID).run(ctx)
			}}))
			w.must(w.StartInstance(w.call(), "a", 1))
			w.must(w.StartInstance(w.call(), "b", 2))
			w.crash("b", "a")
			if len(args) != 4 || args[2] != 2 || args[3] != 1 {
				t.Error(args)
			}
			w.crash("a")
			w.wantLimit("a")
		},
		"6.11 an instance whose restart is not needed": func(t *testing.T, w *world) {
			for _, flags := range []string{"ready", "transient,ready"} {
				w := newWorld(t)
				w.fails("a", ErrIgnore, 3)
				w.up(pool(w.byID(flags)))
				w.must(w.StartInstance(w.call(), "a", nil))
				w.crash("a")
				w.wantList("a running")
				w.crash("a")
				w.wantList("")
				w.Stop()
				w.wantEnd(ShutDown)
			}
		},
		"6.14 a loop of restarts blocks no caller": func(t *testing.T, w *world) {
			w.up(hanging(w, OneForOne, "a:ready"))
			w.crash("a")
			w.loops(t, "a")
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.wantList("a stopped")
			w.must(w.RestartChild(w.call(), "a")) // the looping has made it healthy
			w.crash("a")
			start := time.Now()
			w.Stop()
			<-w.Done()
			if d := time.Since(start); d > brutalGrace {
				t.Errorf("the stop took %v", d)
			}
		},
		"6.15 the same in the middle of three": func(t *testing.T, w *world) {
			w.up(hanging(w, RestForOne, "z", "a:ready", "c"))
			w.crash("a")
			w.loops(t, "a")
			w.wantList("z running, a starting, c waiting")
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.wantList("z running, a stopped, c stopped")
		},
		"6.15 the same during the delay": func(t *testing.T, w *world) {
			w.up(w.tree(RestForOne, "z", "a:fixed", "c"))
			w.crash("a")
			w.wantList("z running, a restarting, c waiting")
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.wantList("z running, a stopped, c stopped")
			w.must(w.RestartChild(w.call(), "c"))
			w.wantList("z running, a stopped, c running")
		},
		"6.16 the same for an instance": func(t *testing.T, w *world) {
			spec := pool(w.byID("fixed"))
			w.up(spec)
			w.must(w.StartInstance(w.call(), "a", nil))
			w.crash("a")
			w.wantList("a restarting")
			w.fail("the same", only(w.StartInstance(w.call(), "a", nil)), ErrAlreadyPresent)
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.wantList("")
		},
	})
}

// hanging is a tree whose child a takes 2 s for each start but the first, which then fails.
func hanging(w *world, s Strategy, words ...string) Spec {
	spec := w.tree(s, words...)
	spec.Limit.Max = Unlimited
	healthy := 4
	for i := range spec.Children {
		if c := &spec.Children[i]; c.ID == "a" {
			c.Shutdown = BrutalKill
			w.actor("a").onStart = func(n int) error {
				if n == 1 || n == healthy {
					return nil
				}
				time.Sleep(2 * time.Second)
				return errBoom
			}
		}
	}
	return spec
}

// loops: calls are answered at once while a child is being restarted in vain.
func (w *world) loops(t *testing.T, id string) {
	t.Helper()
	w.pass(3 * time.Second) // in the middle of the second try
	start := time.Now()
	w.fail("start", only(w.StartChild(w.call(), w.kids(id)[0])), ErrAlreadyStarted)
	w.fail("restart", only(w.RestartChild(w.call(), id)), ErrRunning)
	w.fail("delete", w.DeleteChild(id), ErrRunning)
	if i, err := w.Child(id); err != nil || i.State != Starting || i.Restarts != 2 {
		t.Errorf("%+v, %v", i, err)
	}
	if n, err := w.Count(); err != nil || n.Specs == 0 {
		t.Errorf("%+v, %v", n, err)
	}
	if d := time.Since(start); d != 0 {
		t.Errorf("the calls took %v", d)
	}
}

// Row 6.12: a top over three supervisors, escalation from the bottom.
func TestOTPTree(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"6.12 tree": func(t *testing.T, w *world) {
			one := w.tree(OneForOne, "w1", "w2:ready")
			dynamic := w.tree(OneForOne, "w3")
			third := w.tree(OneForOne)
			top := Spec{Strategy: OneForAll, Limit: Escalating(4, time.Hour), Children: []ChildSpec{
				{ID: "one", Supervisor: &one}, {ID: "dyn", Supervisor: &dynamic}, {ID: "third", Restart: Transient, Supervisor: &third},
			}}
			w.up(top)
			w.wantCounts(3, 3, 3, 0)
			sub := func(id string) *Supervisor {
				i, err := w.Child(id)
				if err != nil || i.Sub == nil {
					t.Fatalf("%s: %+v, %v", id, i, err)
				}
				return i.Sub
			}
			w.must(sub("dyn").StartChild(w.call(), w.kids("extra")[0]))
			w.fail("terminate", w.TerminateChild(w.call(), "third"), nil)
			w.wantCounts(3, 2, 3, 0)
			w.trace()

			w.crash("w1", "extra")
			w.want("!one/w1 +one/w1 !dyn/extra +dyn/extra")
			if w.actor("w2").starts != 1 || w.actor("w3").starts != 1 {
				t.Error("more than the leaf was touched")
			}

			w.fails("w2", errBoom, 2) // one restart is left
			w.crash("w2")
			w.want("!one/w2 ?one/w2 -one/w1 -one !one -dyn/extra -dyn/w3 -dyn -dyn +one/w1 +one/w2 +one +one +dyn/w3 +dyn +dyn +third +third")
			w.wantCounts(3, 3, 3, 0)
			if n, err := sub("dyn").Count(); err != nil || n.Specs != 1 {
				t.Errorf("dynamic children came back: %+v, %v", n, err)
			}
			if i, _ := w.Child("one"); i.Incarnation != 2 || i.LastExit.Kind != Failure {
				t.Errorf("%+v", i)
			}
		},
		"a limit at the bottom goes up to the root": func(t *testing.T, w *world) {
			leaf := withMax(w.tree(OneForOne, "a"), 0)
			middle := Spec{Limit: Escalating(0, time.Hour), Children: []ChildSpec{{ID: "leaf", Supervisor: &leaf}}}
			w.up(Spec{Limit: Escalating(0, time.Hour), Children: []ChildSpec{{ID: "middle", Supervisor: &middle}}})
			w.crash("a")
			w.wantLimit("middle")
			var limit *LimitError
			errors.As(w.Wait(), &limit)
			for _, want := range []string{"middle", "leaf", "a"} {
				if limit == nil || limit.Child != want {
					t.Fatalf("got %v, want a limit reached by %s", limit, want)
				}
				next := limit.Exit.Err
				limit = nil
				errors.As(next, &limit)
			}
		},
		"a transient supervisor that reaches its limit has failed": func(t *testing.T, w *world) {
			leaf := withMax(w.tree(OneForOne, "a"), 0)
			w.up(Spec{Children: []ChildSpec{{ID: "leaf", Restart: Transient, Supervisor: &leaf}}})
			w.crash("a")
			w.wantList("leaf running")
			if i, _ := w.Child("leaf"); i.Incarnation != 2 {
				t.Errorf("%+v", i)
			}
		},
	})
}

// Nesting is allowed to depth 8.
func TestDepth(t *testing.T) {
	nest := func(depth int) Spec {
		s := Spec{Children: kids("leaf")}
		for range depth - 1 {
			inner := s
			s = Spec{Children: []ChildSpec{{ID: "s", Supervisor: &inner}}}
		}
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(context.Background(), nest(8))
		if err != nil {
			t.Fatal(err)
		}
		deep := s
		for range 7 {
			i, err := deep.Child("s")
			if err != nil {
				t.Fatal(err)
			}
			deep = i.Sub
		}
		if deep.Path() != "root/s/s/s/s/s/s/s" {
			t.Error(deep.Path())
		}
		var bad *SpecError
		if _, err := deep.StartChild(context.Background(), ChildSpec{ID: "more", Supervisor: &Spec{}}); !errors.As(err, &bad) {
			t.Errorf("depth 9 by a call: %v", err)
		}
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		if err := nest(9).Validate(); !errors.As(err, &bad) {
			t.Errorf("depth 9: %v", err)
		}
	})
	self := Spec{Children: []ChildSpec{{ID: "a"}, {ID: "b"}}}
	self.Children[0].Supervisor, self.Children[1].Supervisor = &self, &self
	var bad *SpecError
	if err := self.Validate(); !errors.As(err, &bad) {
		t.Errorf("a supervisor in itself: %v", err)
	}
}
