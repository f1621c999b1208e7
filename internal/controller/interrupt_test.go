package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A start that takes long can be ended: what is not to run any
// more is stopped while it starts, and what waited for its turn is not started.
func TestStartsAreInterrupted(t *testing.T) {
	begun := func(p *play) int {
		p.stage.mu.Lock()
		defer p.stage.mu.Unlock()
		return len(p.stage.begun)
	}
	small := []string{"keep"}
	big := []string{"keep", "a", "b", "s(c d)"}
	grown := func(t *testing.T, change func(*spec.Agent)) *spec.Tree {
		tree := treeOf(t, big...)
		for _, name := range []string{"a", "b", "c", "d"} {
			edited(t, tree, name, change)
		}
		return tree
	}
	for name, end := range map[string]func(t *testing.T, p *play){
		"the project is suspended": func(t *testing.T, p *play) {
			if _, err := p.control.Act(context.Background(), "", control.Suspend); err != nil {
				t.Error(err)
			}
		},
		"the file suspends them":         func(t *testing.T, p *play) { p.becomes(grown(t, func(a *spec.Agent) { a.Suspended = true })) },
		"they are not in the file again": func(t *testing.T, p *play) { p.becomes(treeOf(t, small...)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := treeOf(t, small...)
				tree.Patrol = spec.DefaultPatrol()
				tree.Patrol.Starts = 2
				p := raise(t, newStage(), memory.New(), tree)
				defer p.close()
				for _, path := range []string{"t/a", "t/b", "t/s/c", "t/s/d"} {
					p.stage.plays(path, part{takes: time.Hour})
				}
				p.becomes(grown(t, func(*spec.Agent) {}))
				if n := begun(p); n != 3 {
					t.Fatalf("%d have begun, want keep and two whose turn it is", n)
				}
				began := time.Now()
				end(t, p)
				time.Sleep(time.Second)
				for _, path := range []string{"t/a", "t/b", "t/s/c", "t/s/d"} {
					if a := p.stage.on(path); a != nil {
						t.Errorf("after %v %s still lives", time.Since(began), path)
					}
				}
				if n := begun(p); n != 3 {
					t.Errorf("%d have begun, want no more", n)
				}
			})
		})
	}
}
