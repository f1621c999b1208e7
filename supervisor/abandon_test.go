package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAbandon(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"a goroutine that does not return": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			w.actor("a").deaf = true
			w.pass(time.Second)
			start := time.Now()
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			if d := time.Since(start); d != DefaultShutdown {
				t.Errorf("took %v", d)
			}
			if n, _ := w.Count(); n.Abandoned != 1 || n.Active != 0 {
				t.Errorf("%+v", n)
			}
			i, _ := w.Child("a")
			var err *AbandonedError
			if i.LastExit.Kind != Abandoned || !errors.As(i.LastExit.Err, &err) || err.Path != "root/a" || err.Waited != DefaultShutdown {
				t.Errorf("%+v", i)
			}
			w.must(w.RestartChild(w.call(), "a"))
			w.want("+a +root #a -a +a")
			w.actor("a").wake()
			w.want("~a")
			if n, _ := w.Count(); n.Abandoned != 0 {
				t.Errorf("%+v", n)
			}
			w.wantList("a running") // the end of the old one is not the new one's
			for _, e := range w.seen() {
				if e, ok := e.(ChildReturned); ok && e.Incarnation != 1 {
					t.Errorf("%+v", e)
				}
			}
		},
		"the successor in a group runs beside it": func(t *testing.T, w *world) {
			w.up(w.tree(OneForAll, "a", "b"))
			w.actor("b").deaf = true
			w.crash("a")
			w.pass(DefaultShutdown)
			w.want("+a +b +root !a #b -b +a +b")
			if w.actor("b").alive != 2 {
				t.Errorf("%d of b", w.actor("b").alive)
			}
		},
		"or the supervisor fails": func(t *testing.T, w *world) {
			w.up(w.tree(OneForAll, "a", "b:fail", "c"))
			w.actor("b").deaf = true
			w.crash("a")
			w.pass(DefaultShutdown)
			w.wantEnd(Failure)
			var err *AbandonedError
			if !errors.As(w.Exit().Err, &err) || err.Path != "root/b" {
				t.Error(w.Exit())
			}
			if w.actor("b").most != 1 {
				t.Error("two of b")
			}
		},
		"fail answers who waits for the stop": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a:fail"))
			w.actor("a").deaf = true
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			w.wantEnd(Failure)
		},
		"during a shutdown fail is as good as proceed": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b:fail"))
			w.actor("b").deaf = true
			w.Stop()
			<-w.Done()
			w.wantEnd(ShutDown)
			w.want("+a +b +root #b -b -a -root")
		},
		"brutal kill gives it a moment": func(t *testing.T, w *world) {
			spec := w.tree(OneForOne, "a", "b")
			spec.Children[0].Shutdown, spec.Children[1].Shutdown = BrutalKill, BrutalKill
			w.up(spec)
			w.actor("b").deaf = true
			start := time.Now()
			w.Stop()
			<-w.Done()
			if d := time.Since(start); d != brutalGrace {
				t.Errorf("took %v", d)
			}
			w.want("+a +b +root #b -b -a -root")
		},
		"infinity waits": func(t *testing.T, w *world) {
			spec := w.tree(OneForOne, "a")
			spec.Children[0].Shutdown = Infinity
			w.up(spec)
			w.actor("a").deaf = true
			w.Stop()
			w.pass(10_000 * time.Hour)
			w.wantAlive()
			w.Kill()
			w.pass(brutalGrace)
			w.wantEnd(ShutDown)
			w.want("+a +root #a -a -root")
		},
		"kill of a tree": func(t *testing.T, w *world) {
			inner := w.tree(OneForOne, "b", "c")
			spec := w.tree(OneForOne, "a")
			spec.Children = append(spec.Children, ChildSpec{ID: "s", Supervisor: &inner})
			w.up(spec)
			for _, id := range []string{"a", "b", "c"} {
				w.actor(id).deaf = true
			}
			start := time.Now()
			w.Kill()
			<-w.Done()
			w.wantEnd(Killed)
			if d := time.Since(start); d > 3*brutalGrace {
				t.Errorf("took %v", d)
			}
			if err := w.Wait(); !errors.Is(err, ErrKilled) {
				t.Error(err)
			}
		},
		"a nested supervisor whose shutdown time is over is killed": func(t *testing.T, w *world) {
			inner := w.tree(OneForOne, "b")
			inner.Children[0].Shutdown = Infinity
			w.up(Spec{Children: []ChildSpec{{ID: "s", Shutdown: time.Second, Supervisor: &inner}}})
			w.actor("b").deaf = true
			start := time.Now()
			w.fail("terminate", w.TerminateChild(w.call(), "s"), nil)
			if d := time.Since(start); d != time.Second+brutalGrace {
				t.Errorf("took %v", d)
			}
			w.want("+s/b +s +s +root #s/b -s/b -s -s")
		},
		"a process that survives kill": func(t *testing.T, w *world) {
			p := newFake()
			p.onStop, p.onKill = nil, nil
			w.up(Spec{Children: []ChildSpec{{ID: "a", Shutdown: time.Second, Start: func(context.Context) (Process, error) { return p, nil }}}})
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			if s := p.signals(); s != "1 stops, 1 kills" {
				t.Error(s)
			}
			w.want("+a +root #a -a")
			p.end(fine)
			w.want("~a")
		},
		"stop and kill that block do not block the supervisor": func(t *testing.T, w *world) {
			p := newFake()
			free := make(chan struct{})
			p.onStop = func(*fake) { <-free }
			p.onKill = func(*fake) { <-free }
			spec := w.tree(OneForOne, "b")
			spec.Children = append(spec.Children, ChildSpec{ID: "a", Start: func(context.Context) (Process, error) { return p, nil }})
			w.up(spec)
			go w.TerminateChild(w.call(), "a")
			w.wantList("b running, a stopping")
			w.crash("b")
			w.wantList("b running, a stopping")
			w.pass(DefaultShutdown + KillGrace)
			w.wantList("b running, a stopped")
			close(free)
			p.end(fine)
		},
	})
}

// Starts that misbehave.
func TestStarts(t *testing.T) {
	started := func(f func(context.Context) (Process, error)) ChildSpec { return ChildSpec{ID: "x", Start: f} }
	cases(t, map[string]func(*testing.T, *world){
		"wait for ready": func(t *testing.T, w *world) {
			go func() {
				w.actor("a").onStart = func(int) error { time.Sleep(time.Minute); return nil }
			}()
			synctest.Wait()
			start := time.Now()
			w.up(w.tree(RestForOne, "a:ready", "b"))
			if d := time.Since(start); d != time.Minute {
				t.Errorf("took %v", d)
			}
			w.want("+a +b +root")
		},
		"start timeout": func(t *testing.T, w *world) {
			c := ChildSpec{ID: "x", Run: idle, WaitReady: true, StartTimeout: time.Minute}
			w.up(w.tree(OneForOne, "a"))
			start := time.Now()
			w.fail("start", only(w.StartChild(w.call(), c)), ErrStartTimeout)
			if d := time.Since(start); d != time.Minute {
				t.Errorf("took %v", d)
			}
			w.wantList("a running")
		},
		"start timeout of a start that ignores its context": func(t *testing.T, w *world) {
			p := newFake()
			free := make(chan struct{})
			c := started(func(context.Context) (Process, error) { <-free; return p, nil })
			c.StartTimeout = time.Minute
			w.up(w.tree(OneForOne, "a"))
			start := time.Now()
			w.fail("start", only(w.StartChild(w.call(), c)), ErrStartTimeout)
			if d := time.Since(start); d != time.Minute+DefaultShutdown+brutalGrace && d != time.Minute+DefaultShutdown {
				t.Errorf("took %v", d)
			}
			w.wantList("a running")
			close(free) // a process that is no longer wanted
			if s := p.signals(); s != "0 stops, 1 kills" {
				t.Error(s)
			}
			if n, _ := w.Count(); n.Abandoned != 0 {
				t.Errorf("%+v", n)
			}
		},
		"a process that comes while it is being stopped": func(t *testing.T, w *world) {
			p := newFake()
			free := make(chan struct{})
			w.up(w.tree(OneForOne, "a"))
			go w.StartChild(w.call(), started(func(context.Context) (Process, error) { <-free; return p, nil }))
			synctest.Wait()
			go w.TerminateChild(w.call(), "x")
			synctest.Wait()
			close(free)
			w.wantList("a running, x stopped")
			if s := p.signals(); s != "1 stops, 0 kills" {
				t.Error(s)
			}
		},
		"a process that comes after the supervisor has ended": func(t *testing.T, w *world) {
			p := newFake()
			free := make(chan struct{})
			w.up(w.tree(OneForOne, "a"))
			go w.StartChild(w.call(), started(func(context.Context) (Process, error) { <-free; return p, nil }))
			synctest.Wait()
			w.Kill()
			<-w.Done()
			close(free)
			if s := p.signals(); s != "0 stops, 1 kills" {
				t.Error(s)
			}
		},
		"a start that gives up when asked": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a"))
			failed := make(chan error, 1)
			go func() {
				failed <- only(w.StartChild(w.call(), started(func(ctx context.Context) (Process, error) { <-ctx.Done(); return nil, ctx.Err() })))
			}()
			synctest.Wait()
			start := time.Now()
			w.fail("terminate", w.TerminateChild(w.call(), "x"), nil)
			w.fail("start", <-failed, ErrTerminated)
			if d := time.Since(start); d != 0 {
				t.Errorf("took %v", d)
			}
			if i, _ := w.Child("x"); i.LastExit.Kind != ShutDown {
				t.Errorf("%+v", i)
			}
		},
		"nil and no error": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			if err := only(w.StartChild(w.call(), started(func(context.Context) (Process, error) { return nil, nil }))); err == nil {
				t.Error("started")
			}
		},
		"a process and an error": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			w.fail("start", only(w.StartChild(w.call(), started(func(context.Context) (Process, error) { return newFake(), errBoom }))), errBoom)
		},
		"a run that ends before it is ready": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			c := ChildSpec{ID: "x", WaitReady: true, Run: func(context.Context) error { return nil }}
			w.fail("start", only(w.StartChild(w.call(), c)), ErrNotReady)
		},
		"the end of the caller's context ends the wait, not the start": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne))
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			w.actor("x").onStart = func(int) error { time.Sleep(time.Minute); return nil }
			w.fail("start", only(w.StartChild(ctx, w.kids("x:ready")[0])), context.DeadlineExceeded)
			w.wantList("x starting")
			w.pass(time.Minute)
			w.wantList("x running")
		},
		"calls are answered while a child starts slowly": func(t *testing.T, w *world) {
			w.up(w.tree(OneForOne, "a", "b"))
			go w.StartChild(w.call(), ChildSpec{ID: "x", Run: idle, WaitReady: true})
			w.wantList("a running, b running, x starting")
			w.crash("a")
			w.fail("terminate", w.TerminateChild(w.call(), "b"), nil)
			w.must(w.StartChild(w.call(), w.kids("c")[0]))
			w.wantList("a running, b stopped, x starting, c running")
			w.want("+a +b +root !a +a -b +c")
		},
		"stop during a slow start": func(t *testing.T, w *world) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Minute, cancel)
			start := time.Now()
			_, err := Start(ctx, Spec{Children: append(w.kids("a"), ChildSpec{ID: "x", Start: func(ctx context.Context) (Process, error) {
				<-ctx.Done()
				return nil, errBoom
			}})})
			if !errors.Is(err, context.Canceled) || time.Since(start) != time.Minute {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		},
	})
}
