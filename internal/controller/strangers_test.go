package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// intrude starts something that no controller has asked for.
func (s *stage) intrude(path string) *actor {
	a := &actor{launch: runtime.Launch{Path: path, Incarnation: 1}, started: time.Now(), done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[path] = a
	return a
}

// An orphan is stopped by the next pass, and what it ran in is removed.
func TestStrangersAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a", "s(b)"))
		defer p.close()
		time.Sleep(10 * time.Minute)
		p.stage.intrude("t/ghost")
		p.stage.intrude("t/s/ghost2")
		p.stage.intrude("elsewhere/a")
		r, err := p.patrol.Patrol(context.Background(), true)
		if err != nil || len(r.Actions) != 3 || r.Actions[1].Path != "t/ghost" || r.Actions[1].Reason != "no supervisor knows it" {
			t.Errorf("a round would do %+v, %v", r.Actions, err)
		}
		if got := p.stage.cast(); got != "elsewhere/a 1, t/a 1, t/ghost 1, t/s/b 1, t/s/ghost2 1" {
			t.Errorf("before the round there live %s", got)
		}
		time.Sleep(p.fleet().Patrol.Interval + time.Second)
		if got := p.stage.cast(); got != "t/a 1, t/s/b 1" {
			t.Errorf("after a round there live %s", got)
		}
		all := p.happened(event.AgentStopped)
		slices.Sort(all)
		if len(all) != 3 || all[1] != "t/ghost stopped: no supervisor knew it" {
			t.Errorf("it says %q", all)
		}
		if r, err := p.patrol.Patrol(context.Background(), true); err != nil || len(r.Actions) > 0 {
			t.Errorf("and then it would do %+v, %v", r.Actions, err)
		}
		if len(p.stage.slots) != 2 {
			t.Errorf("%d slots are left", len(p.stage.slots))
		}
	})
}

// What cannot be told is left alone, and so is what becomes known, or is
// another one, before the round comes to it.
func TestStrangersThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, treeOf(t, "a"))
		defer p.close()
		p.stage.intrude("t/b")
		p.stage.mu.Lock()
		p.stage.blind = errors.New("boom")
		p.stage.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if got := p.stage.cast(); got != "t/a 1, t/b 1" {
			t.Errorf("blind, there live %s", got)
		}
		p.stage.mu.Lock()
		p.stage.blind = nil
		p.stage.mu.Unlock()

		// It is another one by the time that somebody comes to stop it.
		p.orphans.Scan(context.Background())
		next := p.stage.intrude("t/b")
		next.launch.Incarnation = 7
		p.orphans.Stop(context.Background(), "t/b")
		if next.over() {
			t.Error("another incarnation than the one that was seen is stopped")
		}
		next.end(supervisor.Exit{Kind: supervisor.Normal})

		// It has become an agent of the file.
		p.stage.intrude("t/c")
		p.orphans.Scan(context.Background())
		p.becomes(treeOf(t, "a", "c"))
		seen := p.observer.Observe(p.fleet())
		if seen["t/c"] == nil || seen["t/c"].Orphan {
			t.Errorf("an agent of the file is %+v", seen["t/c"])
		}
	})
}

// An agent that leaves the file while its slot is looked at is stopped as that.
func TestNoStrangersOnTheWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.parts["t/b"] = part{stops: time.Minute}
		s.parts["t/s/c"] = part{stops: time.Minute}
		p := raise(t, s, memory.New(), edited(t, edited(t, treeOf(t, "a", "b", "s(c)"), "b", inNoHurry), "c", inNoHurry))
		defer p.close()
		p.becomes(treeOf(t, "a"))
		for range 70 {
			time.Sleep(time.Second)
			p.patrol.Patrol(context.Background(), false)
		}
		if got := s.cast(); got != "t/a 1" {
			t.Errorf("there live %s", got)
		}
		for _, message := range p.happened(event.AgentStopped) {
			if message == "t/b stopped: no supervisor knew it" || message == "t/s/c stopped: no supervisor knew it" {
				t.Error(message)
			}
		}
		if n := len(p.happened(event.AgentRemoved)); n != 2 {
			t.Errorf("%d were removed, want 2", n)
		}
	})
}

func inNoHurry(a *spec.Agent) { a.Shutdown.Grace = 2 * time.Minute }
