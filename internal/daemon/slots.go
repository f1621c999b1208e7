package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// sighting is what was seen in a slot of one of the runtimes.
type sighting struct {
	kind string
	runtime.Observation
}

func (s sighting) lives() bool { return s.Life != runtime.Dead }

// adoption is an incarnation that is to be taken over where it is.
type adoption struct {
	kind        string
	incarnation uint64
	late        bool      // its start is not on record: what comes with it may not have been done
	endedAt     time.Time // zero: it lives, or that is not known
}

// stray is what is in slots of an agent that its next incarnation will not
// live in: above all when the file names another runtime than before, and what was
// being stopped for a restart. They are emptied before the agent is started, so that
// it never runs twice.
type stray struct {
	in     []sighting
	why    string  // what is at home is stopped
	record *record // of the agent, as it is when they are empty
}

// look lists the slots of all runtimes by path, and waits for a runtime that
// cannot be asked and for slots of which nothing can be told: to act on a guess
// may start an agent twice.
func (c *Controller) look(ctx context.Context) (map[string][]sighting, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		found, doubt := c.survey(ctx)
		if doubt == nil {
			return found, nil
		}
		c.opts.Logger.Warn("cannot tell what runs; waiting", "error", doubt)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("looking for what runs: %w", doubt)
		}
	}
}

// survey is one look at all slots, and what is not known for certain. A slot
// that its agent is at home in can wait until the agent is taken over.
func (c *Controller) survey(ctx context.Context) (found map[string][]sighting, doubt error) {
	found = make(map[string][]sighting)
	for _, kind := range slices.Sorted(maps.Keys(c.places)) {
		all, err := c.places[kind].List(ctx)
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w: %w", kind, runtime.ErrUnknown, err)
		}
		for _, o := range all {
			if o.Life == runtime.Unknown {
				o.Path = c.named(o.Path)
			}
			a := c.fleet().agents[o.Path]
			if o.Life == runtime.Unknown && (a == nil || a.Runtime.String() != kind) {
				return nil, fmt.Errorf("%s in runtime %s: %w: %s", o.Path, kind, runtime.ErrUnknown, o.Detail)
			}
			found[o.Path] = append(found[o.Path], sighting{kind, o})
		}
	}
	return found, nil
}

// named is the path of the agent whose slot goes by the name of its directory,
// because what is in it is damaged. The runtime can repair it when it knows whose it is.
func (c *Controller) named(slot string) string {
	for path := range c.fleet().agents {
		if name, err := wire.DirName(path); err == nil && name == slot {
			return path
		}
	}
	return slot
}

// assign decides what becomes of the slots of an agent that is wanted: which one
// has its last incarnation, and which ones have to be emptied.
func (c *Controller) assign(path string, all []sighting, p *past) {
	home := c.fleet().agents[path].Runtime.String()
	last := all[0]
	for _, s := range all {
		if s.Incarnation > last.Incarnation || s.Incarnation == last.Incarnation && s.kind == home {
			last = s
		}
	}
	r := p.of(path)
	for _, s := range all {
		// What has ended at home makes room by itself.
		if s.kind == home && (last.kind == home || s.Life == runtime.Dead) {
			continue
		}
		c.addStray(s, "it runs in another runtime since", r)
	}
	switch {
	case last.kind == home:
		c.resume(last, p)
	case last.Life == runtime.Alive:
		// It is stopped where it is, and starts anew where it belongs.
		r.Incarnation = max(r.Incarnation, last.Incarnation)
		r.Ended, r.State, r.Reason = true, supervisor.Waiting.String(), ""
	case last.Incarnation >= r.Incarnation:
		c.resume(last, p) // an end that nobody has seen is told, wherever it was
	case !r.Ended:
		p.adopt[path] = adoption{kind: home, incarnation: r.Incarnation} // and find that it is lost
	}
}

// addStray has a slot of an agent emptied before it is started.
func (c *Controller) addStray(s sighting, why string, r *record) {
	if c.strays[r.Path] == nil {
		c.strays[r.Path] = &stray{record: r}
	}
	c.strays[r.Path].in = append(c.strays[r.Path].in, s)
	c.strays[r.Path].why = why
}

// clearStrays empties the slots that an agent is not to live in, but for the one
// that it is being adopted from. While that fails, the agent cannot be started.
func (c *Controller) clearStrays(ctx context.Context, a *spec.Agent, path string, from adoption, adopting bool) error {
	c.mu.Lock()
	s := c.strays[path]
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	var later []sighting
	for _, o := range s.in {
		if adopting && o.kind == from.kind {
			later = append(later, o)
			continue
		}
		rt := c.places[o.kind]
		home := o.kind == a.Runtime.String()
		if home {
			if err := c.resumed(ctx, o.Observation); err != nil { // while it ends
				return err
			}
		}
		if err := evict(ctx, rt, path, a.Shutdown.Grace); err != nil {
			return fmt.Errorf("it has to leave runtime %s first: %w", o.kind, err)
		}
		if home {
			c.over(path, o.Incarnation, "")
		}
		if o.Life == runtime.Alive {
			why, data := s.why, map[string]any{"reason": s.why}
			if !home {
				why = fmt.Sprintf("it moves from %s to %v", o.kind, a.Runtime)
				data = map[string]any{"reason": "runtime changed", "from": o.kind, "to": a.Runtime.String()}
			}
			c.log.Append(event.Event{
				Type: event.AgentStopped, Path: path, Incarnation: o.Incarnation, Actor: "controller",
				Message: fmt.Sprintf("%s stopped: %s", path, why),
			}.With(data), s.record.op())
			c.journal.started(path, s.record.Incarnation, 1)
		}
		if o.kind != a.Runtime.String() {
			c.remove(ctx, rt, path)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.in = later; len(later) == 0 {
		delete(c.strays, path)
	}
	return nil
}

// stopTogether is how many orphans are stopped at the same time.
const stopTogether = 16

// clear stops and removes what nobody wants to run.
func (c *Controller) clear(ctx context.Context, orphans []sighting) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, stopTogether)
	for _, o := range orphans {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			rt, a, why, grace := c.places[o.kind], c.fleet().agents[o.Path], "is not wanted any more",
				supervisor.DefaultShutdown
			if a != nil {
				why, grace = "was stopped by hand", a.Shutdown.Grace
			}
			if err := evict(ctx, rt, o.Path, grace); err != nil {
				c.opts.Logger.Error("an agent that "+why+" cannot be stopped", "path", o.Path, "error", err)
				return
			}
			if o.Life == runtime.Alive {
				c.log.Append(event.Event{
					Type: event.AgentStopped, Path: o.Path, Incarnation: o.Incarnation, Actor: "controller",
					Message: fmt.Sprintf("%s stopped: it %s", o.Path, why),
				})
			}
			if a == nil || a.Runtime.String() != o.kind {
				c.remove(ctx, rt, o.Path)
			}
		})
	}
	wg.Wait()
}

func (c *Controller) remove(ctx context.Context, rt runtime.Runtime, path string) {
	if err := rt.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.opts.Logger.Warn("a slot cannot be removed", "path", path, "runtime", rt.Kind(), "error", err)
	}
}

// evict stops what lives in a slot, whichever incarnation that is.
func evict(ctx context.Context, rt runtime.Runtime, path string, grace time.Duration) error {
	s, err := adoptNow(ctx, rt, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return dismiss(ctx, s, path, grace)
}

// dismiss stops an incarnation that no supervisor has: asked, and after its grace killed.
func dismiss(ctx context.Context, s runtime.Session, path string, grace time.Duration) error {
	s.Stop()
	select {
	case <-s.Done():
		return nil
	case <-time.After(grace):
	case <-ctx.Done():
	}
	s.Kill()
	select {
	case <-s.Done():
		return nil
	case <-time.After(supervisor.KillGrace):
		return fmt.Errorf("%s: %w", path, &supervisor.AbandonedError{Path: path, Waited: grace + supervisor.KillGrace})
	}
}

// takeOver adopts an incarnation; nil if there is nothing to adopt.
func takeOver(ctx context.Context, rt runtime.Runtime, self supervisor.Self) (runtime.Session, error) {
	s, err := adoptNow(ctx, rt, self.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// adoptNow repeats Adopt until the state of the slot is known.
func adoptNow(ctx context.Context, rt runtime.Runtime, path string) (runtime.Session, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := rt.Adopt(ctx, path)
		if !errors.Is(err, runtime.ErrUnknown) {
			return s, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}
