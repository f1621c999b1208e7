package supervisor

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestModelOfTheLoop is TestModelOfTheCore with real goroutines, timers,
// calls that wait, nested supervisors and children that do not stop.
func TestModelOfTheLoop(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stopped any // what rapid has panicked with, which has to leave the bubble
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer func() {
				if stopped = recover(); stopped != nil && w.Supervisor != nil {
					w.Kill()
					w.end()
				}
			}()
			modelLoop(w, rt)
		})
		if stopped != nil {
			panic(stopped)
		}
	})
}

func modelLoop(w *world, rt *rapid.T) {
	spec := drawSpec(rt, OneForOne, OneForAll, RestForOne)
	spec.OnEvent = w.saw
	act := func(s *Spec) {
		for i := range s.Children {
			c := &s.Children[i]
			c.Run = w.actor(c.ID).run
			c.Shutdown = rapid.SampledFrom([]time.Duration{0, time.Second, BrutalKill}).Draw(rt, "shutdown")
		}
	}
	act(&spec)
	if rapid.Bool().Draw(rt, "nested") {
		inner := drawSpec(rt, OneForOne, OneForAll, RestForOne)
		for i := range inner.Children {
			inner.Children[i].ID = "s" + inner.Children[i].ID
		}
		act(&inner)
		spec.Children = append(spec.Children, ChildSpec{ID: "s", Supervisor: &inner, Restart: Transient})
	}
	s, err := Launch(context.Background(), spec)
	if err != nil {
		rt.Fatal(err)
	}
	w.Supervisor = s
	var open atomic.Int64 // calls
	call := func(f func(ctx context.Context)) {
		open.Add(1)
		go func() {
			defer open.Add(-1)
			f(context.Background())
		}()
		synctest.Wait()
	}
	ids := []string{"a", "b", "c", "d", "e", "s", "sa", "sb", "sc", "x", "y"}
	id := func() string { return rapid.SampledFrom(ids).Draw(rt, "id") }
	rt.Repeat(map[string]func(*rapid.T){
		"exit": func(rt *rapid.T) {
			err := rapid.SampledFrom([]error{nil, errBoom, errBoom, ErrShutdown}).Draw(rt, "error")
			select {
			case w.actor(id()).cmd <- func(context.Context) error { return err }:
			default:
				rt.Skip("does not run")
			}
			synctest.Wait()
		},
		"slow": func(rt *rapid.T) {
			a := w.actor(id())
			a.mu.Lock()
			a.slowStop = rapid.SampledFrom([]time.Duration{0, time.Second / 2, 10 * time.Second}).Draw(rt, "time")
			a.mu.Unlock()
		},
		"slow start": func(rt *rapid.T) {
			d := rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second}).Draw(rt, "time")
			err := rapid.SampledFrom([]error{nil, nil, errBoom, ErrIgnore}).Draw(rt, "error")
			a := w.actor(id())
			a.mu.Lock()
			a.onStart = func(n int) error {
				if n%2 == 0 {
					time.Sleep(d)
					return err
				}
				return nil
			}
			a.mu.Unlock()
		},
		"terminate": func(*rapid.T) { i := id(); call(func(ctx context.Context) { s.TerminateChild(ctx, i) }) },
		"suspend":   func(*rapid.T) { i := id(); call(func(ctx context.Context) { s.SuspendChild(ctx, i) }) },
		"restart":   func(*rapid.T) { i := id(); call(func(ctx context.Context) { s.RestartChild(ctx, i) }) },
		"delete":    func(*rapid.T) { i := id(); call(func(context.Context) { s.DeleteChild(i) }) },
		"reset":     func(*rapid.T) { i := id(); call(func(context.Context) { s.Reset(i) }) },
		"resume":    func(*rapid.T) { call(func(context.Context) { s.Resume() }) },
		"add": func(rt *rapid.T) {
			c := drawChild(rt, Spec{}, rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "new"))
			c.Run = w.actor(c.ID).run
			call(func(ctx context.Context) { s.StartChild(ctx, c) })
		},
		"update": func(rt *rapid.T) {
			u := drawSpec(rt, OneForOne, OneForAll, RestForOne)
			act(&u)
			call(func(context.Context) { s.Update(context.Background(), u) })
		},
		"time": func(rt *rapid.T) {
			w.pass(time.Duration(rapid.IntRange(0, 30).Draw(rt, "seconds")) * time.Second)
		},
		"": func(rt *rapid.T) {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			cut := map[string]int{}
			for _, e := range w.events {
				if e, ok := e.(ChildAbandoned); ok {
					cut[e.ID]++
				}
			}
			for id, a := range w.actors {
				a.mu.Lock()
				if a.most > 1+cut[id] {
					rt.Fatalf("%d incarnations of %s at once, %d were abandoned", a.most, id, cut[id])
				}
				a.mu.Unlock()
			}
			if all, err := s.Children(); err == nil {
				if n, err := s.Count(); err == nil && n.Specs != len(all) {
					rt.Fatalf("%d children, counted %+v", len(all), n)
				}
			}
		},
	})
	s.Stop()
	select {
	case <-s.Done():
	case <-time.After(time.Hour): // far beyond all shutdown times together
		rt.Fatalf("the stop hangs: %s", w.list())
	}
	synctest.Wait()
	if n := open.Load(); n != 0 {
		rt.Fatalf("%d calls were never answered", n)
	}
	time.Sleep(time.Hour) // abandoned ones return
	synctest.Wait()
	for id, a := range w.actors {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.alive != 0 {
			rt.Fatalf("%d of %s are alive", a.alive, id)
		}
	}
	var up, down int
	for _, e := range w.seen() {
		switch e := e.(type) {
		case SupervisorEnded:
			if e.Header().Path() == "root" {
				down++
			}
		case SupervisorStarted:
			if e.Header().Path() == "root" {
				up++
			}
		}
	}
	if up > 1 || down != 1 {
		rt.Fatalf("up %d times, ended %d times", up, down)
	}
}
