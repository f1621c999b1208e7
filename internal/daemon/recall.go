package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// errLost: the slot of an incarnation that should run is gone.
var errLost = errors.New("lost: nothing is left of it, not even how it ended")

// past is what is known from before the controller started.
type past struct {
	records map[string]*record
	selves  map[string]*selfRecord
	forget  bool
	adopt   map[string]uint64
}

// recall compares what the store says with what the runtime has: what lives or
// ended unseen is to be adopted, what is missing is lost, what nobody wants is stopped.
func (c *Controller) recall(ctx context.Context) (*past, error) {
	stored, _, err := c.opts.Store.Snapshot(ctx, nodePrefix)
	if err != nil {
		return nil, fmt.Errorf("reading what the last controller knew: %w", err)
	}
	orderly, _, err := c.opts.Store.Snapshot(ctx, orderlyKey)
	if err != nil {
		return nil, fmt.Errorf("reading how the last controller ended: %w", err)
	}
	records, selves, unreadable := readRecords(stored)
	for _, r := range records {
		if len(orderly) > 0 && !r.lasts() {
			r.State, r.Ended = supervisor.Waiting.String(), true
		}
	}
	for _, key := range unreadable {
		c.opts.Logger.Warn("a record of a node cannot be read and is ignored", "key", key)
	}
	found, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	for path, r := range records {
		if r.Incarnation > 0 {
			c.told[path] = []mark{{incarnation: r.Incarnation}}
		}
	}
	p := &past{records: records, selves: selves, forget: c.opts.Forget, adopt: c.adopt}
	var orphans []string
	for _, path := range slices.Sorted(maps.Keys(found)) {
		o := found[path]
		if c.agents[path] == nil || c.isDown(path, records) {
			orphans = append(orphans, path)
			continue
		}
		c.resume(path, o, p)
	}
	for path, r := range records {
		if _, ok := found[path]; !ok && c.agents[path] != nil && !r.Ended && r.Incarnation > 0 && !c.isDown(path, records) {
			c.adopt[path] = r.Incarnation // and find that it is lost
		}
	}
	c.clear(ctx, orphans, found)
	return p, nil
}

// lasts: what state the node was in holds over an orderly end of the controller.
func (r *record) lasts() bool {
	switch r.State {
	case supervisor.Suspended.String(), supervisor.Quarantined.String(), supervisor.GivenUp.String(), supervisor.Paused.String():
		return true
	}
	return false
}

// isDown: the agent, or a supervisor above it, was stopped by hand, and that
// still holds.
func (c *Controller) isDown(path string, records map[string]*record) bool {
	for ok := true; ok && !c.opts.Forget; path, _, ok = cutLast(path) {
		if r := records[path]; r != nil && r.State == supervisor.Suspended.String() {
			return true
		}
	}
	return false
}

// look lists the slots and waits for those of which nothing can be told: to
// act on a guess may start an agent twice.
func (c *Controller) look(ctx context.Context) (map[string]runtime.Observation, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		all, err := c.opts.Runtime.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for what runs: %w", err)
		}
		found := make(map[string]runtime.Observation, len(all))
		for _, o := range all {
			found[o.Path] = o
		}
		unknown := slices.IndexFunc(all, func(o runtime.Observation) bool { return o.Life == runtime.Unknown && c.agents[o.Path] == nil })
		if unknown < 0 {
			return found, nil
		}
		c.opts.Logger.Warn("cannot tell whether an agent lives; waiting", "path", all[unknown].Path, "detail", all[unknown].Detail)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w: %s", all[unknown].Path, runtime.ErrUnknown, all[unknown].Detail)
		}
	}
}

// resume decides what becomes of a slot that is wanted.
func (c *Controller) resume(path string, o runtime.Observation, p *past) {
	r := p.records[path]
	if r == nil {
		r = &record{Path: path}
		p.records[path] = r
	}
	if o.Incarnation == r.Incarnation && r.Ended && o.Life == runtime.Dead {
		return // dealt with
	}
	// What happened between the last record and the last incarnation.
	for _, b := range o.Before {
		if b.Incarnation > r.Incarnation || b.Incarnation == r.Incarnation && !r.Ended {
			c.missed(r, b)
		}
	}
	late := o.Incarnation > r.Incarnation
	r.Incarnation, r.Ended, r.State, r.StartedAt = o.Incarnation, false, supervisor.Running.String(), o.StartedAt
	if late {
		c.log.Append(event.Event{
			Time: o.StartedAt, Type: event.AgentStarted, Path: path, Incarnation: o.Incarnation, Actor: "supervisor",
			Message: fmt.Sprintf("%s started, incarnation %d; noticed later", path, o.Incarnation),
		}.With(map[string]any{"late": true}), r.op())
	}
	p.adopt[path] = o.Incarnation
}

// missed reports an incarnation that ended, and had a successor, without a word
// in the log, and counts the restart.
func (c *Controller) missed(r *record, b runtime.Ended) {
	if b.Incarnation > r.Incarnation {
		c.log.Append(event.Event{
			Time: b.ExitedAt, Type: event.AgentStarted, Path: r.Path, Incarnation: b.Incarnation, Actor: "supervisor",
			Message: fmt.Sprintf("%s started, incarnation %d; noticed later", r.Path, b.Incarnation),
		}.With(map[string]any{"late": true}))
	}
	kind := event.AgentCrashed
	if b.Exit.Clean() {
		kind = event.AgentExited
	}
	r.Incarnation, r.Ended = b.Incarnation, true
	r.Restarts++
	r.Attempt++
	r.Counted = append(r.Counted, b.ExitedAt)
	r.LastExit = newRecord(r.Path, b.Incarnation, true, supervisor.Saved{LastExit: b.Exit}).LastExit
	c.log.Append(event.Event{
		Time: b.ExitedAt, Type: kind, Path: r.Path, Incarnation: b.Incarnation, Actor: "supervisor",
		Message: fmt.Sprintf("%s ended: %v; noticed later", r.Path, b.Exit),
	}.With(exitData(b.Exit, map[string]any{"late": true})), r.op())
}

// saved is builder.saved.
func (p *past) saved(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
	var self *supervisor.SavedSelf
	if s := p.selves[path]; s != nil && !p.forget {
		self = &supervisor.SavedSelf{Counted: s.Counted, Paused: s.Paused}
	}
	r := p.records[path]
	if r == nil {
		return nil, self
	}
	if p.forget {
		r = &record{Path: path, Incarnation: r.Incarnation, StartedAt: r.StartedAt, State: supervisor.Waiting.String()}
	}
	s := r.saved()
	if at, ok := p.adopt[path]; ok {
		s.State, s.Adopt, s.Incarnation = supervisor.Waiting, true, at
	}
	return s, self
}

// stopTogether is how many orphans are stopped at the same time.
const stopTogether = 16

// clear stops and removes the slots that nobody wants.
func (c *Controller) clear(ctx context.Context, paths []string, found map[string]runtime.Observation) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, stopTogether)
	for _, path := range paths {
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			why := "is not wanted any more"
			if c.agents[path] != nil {
				why = "was stopped by hand"
			}
			if err := c.evict(ctx, path); err != nil {
				c.opts.Logger.Error("an agent that "+why+" cannot be stopped", "path", path, "error", err)
				return
			}
			if found[path].Life == runtime.Alive {
				c.log.Append(event.Event{
					Type: event.AgentStopped, Path: path, Incarnation: found[path].Incarnation, Actor: "controller",
					Message: fmt.Sprintf("%s stopped: it %s", path, why),
				})
			}
			if c.agents[path] == nil {
				if err := c.opts.Runtime.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					c.opts.Logger.Warn("a slot cannot be removed", "path", path, "error", err)
				}
			}
		}()
	}
	wg.Wait()
}

// evict stops what lives in a slot: asked, and after its grace killed.
func (c *Controller) evict(ctx context.Context, path string) error {
	s, err := c.adoptNow(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	grace := supervisor.DefaultShutdown
	if a := c.agents[path]; a != nil {
		grace = a.Shutdown.Grace
	}
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
func (c *Controller) takeOver(ctx context.Context, self supervisor.Self) (runtime.Session, error) {
	s, err := c.adoptNow(ctx, self.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// adoptNow repeats Adopt until the state of the slot is known.
func (c *Controller) adoptNow(ctx context.Context, path string) (runtime.Session, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := c.opts.Runtime.Adopt(ctx, path)
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

// launch is what an incarnation of an agent runs.
func (c *Controller) launch(a *spec.Agent, signal syscall.Signal, self supervisor.Self) runtime.Launch {
	return runtime.Launch{
		Path: self.Path, Incarnation: self.Incarnation, Fingerprint: a.Fingerprint(),
		Argv: a.Command, Dir: a.Dir, Env: proc.Environ(a.Env, self.Path, self.Incarnation), Stdin: a.Stdin,
		StopSignal: signal, Grace: a.Shutdown.Grace, Ready: a.Ready,
	}
}

// cutPath returns the first segment of path below a node, and whether it is below it.
func cutPath(path, above string) (first string, below bool) {
	rest, ok := strings.CutPrefix(path, above+"/")
	if !ok {
		return "", false
	}
	first, _, _ = strings.Cut(rest, "/")
	return first, true
}
