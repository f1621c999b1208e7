package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"
)

func (w *world) auto(a AutoShutdown, words ...string) Spec {
	s := w.tree(OneForOne, words...)
	s.AutoShutdown, s.Limit.Max = a, Unlimited
	return s
}

func TestOTPSignificant(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"7.1 children that are not significant end nothing": func(t *testing.T, w *world) {
			for _, a := range []AutoShutdown{NeverShutdown, AnySignificant, AllSignificant} {
				for _, flag := range []string{"temporary", "transient"} {
					w := newWorld(t)
					w.up(w.auto(a, "a:"+flag, "b:"+flag, "c:"+flag))
					w.TerminateChild(w.call(), "a")
					w.crash("b")
					w.exit(nil, "c")
					w.wantAlive()
				}
			}
		},
		"7.2 any temporary": func(t *testing.T, w *world) {
			for _, err := range []error{nil, ErrShutdown, errBoom} {
				w := newWorld(t)
				w.up(w.auto(AnySignificant, "x", "a:temporary,significant", "b:temporary,significant"))
				w.TerminateChild(w.call(), "b")
				w.wantAlive()
				w.exit(err, "a")
				w.wantEnd(ShutDown)
				w.want("+x +a +b +root -b !a -x -root")
			}
		},
		"7.3 all temporary": func(t *testing.T, w *world) {
			w.up(w.auto(AllSignificant, "a:temporary,significant", "b:temporary,significant", "x:temporary"))
			w.exit(nil, "x")
			w.crash("a")
			w.wantAlive()
			w.exit(nil, "b")
			w.wantEnd(ShutDown)
		},
		"7.4 any transient": func(t *testing.T, w *world) {
			w.up(w.auto(AnySignificant, "a:transient,significant", "b:transient,significant", "x"))
			w.TerminateChild(w.call(), "a")
			w.crash("b")
			w.wantAlive()
			w.exit(ErrShutdown, "b")
			w.wantEnd(ShutDown)
		},
		"7.5 all transient": func(t *testing.T, w *world) {
			w.up(w.auto(AllSignificant, "a:transient,significant", "b:transient,significant", "x"))
			w.exit(nil, "a")
			w.wantAlive()
			w.crash("b")
			w.wantAlive()
			w.exit(nil, "b")
			w.wantEnd(ShutDown)
		},
		"7.6 bystanders": func(t *testing.T, w *world) {
			for _, a := range []AutoShutdown{AnySignificant, AllSignificant} {
				for _, s := range []Strategy{OneForAll, RestForOne} {
					w := newWorld(t)
					spec := w.auto(a, "x", "a:transient,significant")
					spec.Strategy = s
					w.up(spec)
					w.crash("x")
					w.wantList("x running, a running")
				}
			}
		},
		"7.7 from supervisor to supervisor": func(t *testing.T, w *world) {
			for _, significant := range []bool{true, false} {
				w := newWorld(t)
				c := w.auto(AnySignificant, "leaf:transient,significant")
				b := Spec{AutoShutdown: AnySignificant, Children: []ChildSpec{{ID: "c", Restart: Transient, Significant: true, Supervisor: &c}}}
				w.up(Spec{AutoShutdown: AnySignificant, Children: []ChildSpec{{ID: "b", Restart: Transient, Significant: significant, Supervisor: &b}}})
				w.exit(nil, "leaf")
				if significant {
					w.wantEnd(ShutDown)
				} else {
					w.wantList("b stopped")
				}
			}
		},
		"7.8 auto shutdown changes on a live supervisor": func(t *testing.T, w *world) {
			all := []AutoShutdown{NeverShutdown, AnySignificant, AllSignificant}
			for _, from := range all {
				for _, to := range all {
					if from == to {
						continue
					}
					w := newWorld(t)
					words := []string{"a:transient", "b:transient"}
					if from != NeverShutdown {
						words = []string{"a:transient,significant", "b:transient,significant"}
					}
					w.up(w.auto(from, words...))
					if err := w.Update(context.Background(), Spec{AutoShutdown: to, Limit: Limit{Max: Unlimited}}); err != nil {
						t.Fatal(err) // the children stay as they are
					}
					w.want("+a +b +root")
					w.exit(nil, "a")
					if from != NeverShutdown && to == AnySignificant {
						w.wantEnd(ShutDown)
						continue
					}
					w.wantAlive()
					w.exit(nil, "b")
					if from != NeverShutdown && to == AllSignificant {
						w.wantEnd(ShutDown)
					} else {
						w.wantAlive()
					}
					var bad *SpecError
					if to == NeverShutdown {
						if err := only(w.StartChild(w.call(), w.kids("c:transient,significant")[0])); !errors.As(err, &bad) {
							t.Errorf("significant under never: %v", err)
						}
					}
				}
			}
		},
		"7.9 a live child becomes significant, or stops to be": func(t *testing.T, w *world) {
			w.up(w.auto(AnySignificant, "a:transient,significant", "b:transient"))
			var bad *SpecError
			if err := w.Update(context.Background(), w.auto(NeverShutdown, "a:transient,significant")); !errors.As(err, &bad) {
				t.Error(err)
			}
			if err := w.Update(context.Background(), w.auto(AnySignificant, "a:transient", "b:transient,significant")); err != nil {
				t.Error(err)
			}
			w.want("+a +b +root")
			w.exit(nil, "a")
			w.wantAlive()
			w.exit(nil, "b")
			w.wantEnd(ShutDown)
		},
		"when_done ends when all has, at any depth": func(t *testing.T, w *world) {
			inner := w.tree(OneForOne, "b:transient", "c:temporary")
			spec := w.tree(OneForOne, "a:transient,fixed")
			spec.AutoShutdown = WhenDone
			spec.Children = append(spec.Children, ChildSpec{ID: "s", Supervisor: &inner})
			w.up(spec)
			w.exit(nil, "b")
			w.crash("c") // s is idle now
			w.wantAlive()
			w.crash("a")
			w.wantAlive() // a will run again
			w.pass(time.Second)
			w.exit(nil, "a")
			w.wantEnd(Normal)
			if err := w.Wait(); err != nil {
				t.Error(err)
			}
		},
		"when_done: an idle supervisor that gets work is not done": func(t *testing.T, w *world) {
			inner := w.tree(OneForOne)
			spec := w.tree(OneForOne, "a:transient")
			spec.AutoShutdown = WhenDone
			spec.Children = append(spec.Children, ChildSpec{ID: "s", Supervisor: &inner})
			w.up(spec)
			i, _ := w.Child("s")
			w.must(i.Sub.StartChild(w.call(), w.kids("b:transient")[0]))
			w.exit(nil, "a")
			w.wantAlive()
			w.exit(nil, "b")
			w.wantEnd(Normal)
		},
		"when_done: what is held is not done, and neither is what it is in": func(t *testing.T, w *world) {
			inner := w.auto(WhenDone, "b")
			w.up(Spec{AutoShutdown: WhenDone, Children: []ChildSpec{{ID: "s", Restart: Transient, Supervisor: &inner}}})
			i, _ := w.Child("s")
			release, other := i.Sub.Hold(), i.Sub.Hold()
			if err := i.Sub.SuspendChild(w.call(), "b"); err != nil {
				t.Error(err)
			}
			w.wantAlive()
			w.must(i.Sub.RestartChild(w.call(), "b"))
			release()
			release() // counts once
			if err := i.Sub.SuspendChild(w.call(), "b"); err != nil {
				t.Error(err)
			}
			w.wantAlive()
			other()
			w.wantEnd(Normal)
			w.Hold()() // of one that has ended
		},
		"when_done: a nested supervisor without children": func(t *testing.T, w *world) {
			w.up(Spec{AutoShutdown: WhenDone, Children: []ChildSpec{{ID: "s", Supervisor: &Spec{}}}})
			w.wantEnd(Normal)
		},
		"when_done: a nested when_done that is permanent is restarted": func(t *testing.T, w *world) {
			inner := w.auto(WhenDone, "b:transient")
			w.up(Spec{Children: []ChildSpec{{ID: "s", Supervisor: &inner}, {ID: "t", Restart: Transient, Supervisor: &Spec{AutoShutdown: WhenDone, Children: w.kids("c:transient")}}}})
			w.exit(nil, "b")
			w.exit(nil, "c")
			w.wantList("s running, t stopped")
			if w.actor("b").starts != 2 {
				t.Error("b was not started again")
			}
		},
	})
}

func TestOTPChange(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"8.1 new flags are in force, children untouched": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b"))
			spec := withMax(w.tree(OneForAll, "a", "b"), 0)
			w.fail("update", w.Update(context.Background(), spec), nil)
			w.want("+a +b +root")
			w.crash("a")
			w.wantLimit("a")
		},
		"8.1 the strategy too": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b"))
			w.fail("update", w.Update(context.Background(), w.tree(OneForAll, "a", "b")), nil)
			w.crash("b")
			w.want("+a +b +root !b -a +a +b")
		},
		"8.2 a fault, and nothing has changed": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b"))
			bad := w.tree(OneForAll, "a", "b", "b")
			var fault *SpecError
			if err := w.Update(context.Background(), bad); !errors.As(err, &fault) {
				t.Error(err)
			}
			w.crash("b")
			w.want("+a +b +root !b +b")
			w.wantList("a running, b running")
		},
		"8.3 new children are listed, not started": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.fail("update", w.Update(context.Background(), w.tree(OneForOne, "a", "b")), nil)
			w.wantList("a running, b stopped")
			w.must(w.RestartChild(w.call(), "b"))
			w.wantList("a running, b running")
		},
		"8.4 a new spec for a running child": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.actor("a").slowStop = time.Hour
			spec := w.tree(OneForOne, "a:temporary")
			spec.Children[0].Shutdown = 2 * time.Hour
			w.fail("update", w.Update(context.Background(), spec), nil)
			w.want("+a +root")
			start := time.Now()
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			if d := time.Since(start); d != time.Hour {
				t.Errorf("took %v", d)
			}
			w.wantList("")
		},
		"8.5 those that are missing stay, and come first": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b", "c", "d"))
			w.fail("update", w.Update(context.Background(), w.tree(OneForOne, "d", "e", "b")), nil)
			w.wantList("a running, c running, d running, e stopped, b running")
			w.Stop()
			<-w.Done()
			w.want("+a +b +c +d +root -b -d -c -a -root")
		},
		"8.7 the template of a pool": func(t *testing.T, w *world) {
			w.up(pool(w.byID("")))
			w.must(w.StartInstance(w.call(), "a", nil))
			w.fail("update", w.Update(context.Background(), pool(w.byID("temporary"))), nil)
			w.crash("a")
			w.wantList("")
			two := pool(w.byID(""))
			two.Children = append(two.Children, w.kids("x")...)
			none := pool(w.byID(""))
			none.Children = nil
			var bad *SpecError
			for _, spec := range []Spec{two, none, w.tree(OneForOne, "a")} {
				if err := w.Update(context.Background(), spec); !errors.As(err, &bad) {
					t.Errorf("%d children, %v: %v", len(spec.Children), spec.Strategy, err)
				}
			}
		},
		"a change waits for the restart of a group": func(t *testing.T, w *world) {
			w.up(w.tree(RestForOne, "a:fixed", "b"))
			w.crash("a")
			start := time.Now()
			w.fail("update", w.Update(context.Background(), w.tree(OneForOne, "b", "a")), nil)
			if d := time.Since(start); d != time.Second {
				t.Errorf("after %v", d)
			}
			w.wantList("b running, a running")
		},
		"and is refused when the supervisor is stopped meanwhile": func(t *testing.T, w *world) {
			w.up(w.tree(RestForOne, "a:fixed", "b"))
			w.actor("b").slowStop = time.Second
			w.crash("a")
			go func() { time.Sleep(time.Millisecond); w.Stop() }()
			w.fail("update", w.Update(context.Background(), w.tree(OneForOne, "b", "a")), ErrStopping)
		},
	})
}
