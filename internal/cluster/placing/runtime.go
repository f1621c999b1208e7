package placing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
)

// Runtime is a runtime.Runtime of the whole fleet, of one kind.
type Runtime struct {
	runtime.Runtime // of this node
	places          *Places
	removed         removedLogs
}

// New returns a runtime of the fleet, with a runtime of this node.
func New(local runtime.Runtime, p *Places) *Runtime {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.local[local.Kind()] = local
	return &Runtime{Runtime: local, places: p}
}

// runtimeOf returns the runtime in which an incarnation was started, which may be of another kind than the next one;
// nil if this node has none of its kind.
func (p *Places) runtimeOf(place Place) runtime.Runtime {
	if place.Node != p.Node {
		return p.Runtime(place.Node, place.Kind)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.local[place.Kind]
}

// at returns the runtime of a node.
func (r *Runtime) at(node string) runtime.Runtime {
	if node == r.places.Node {
		return r.Runtime
	}
	return r.places.Runtime(node, r.Kind())
}

// Place chooses the node of an incarnation, which Start then starts there, and writes its place. Before that, commands
// of the agent run there, too.
func (r *Runtime) Place(ctx context.Context, l runtime.Launch) error {
	_, err := r.place(ctx, l)
	return err
}

func (r *Runtime) place(ctx context.Context, l runtime.Launch) (Place, error) {
	if err := r.places.reread(ctx, l.Path); err != nil {
		return Place{}, err
	}
	node, err := r.places.choose(l.Path)
	if err != nil {
		return Place{}, err
	}
	if err := r.leave(ctx, node, l); err != nil {
		return Place{}, err
	}
	return r.places.take(ctx, node, r.Kind(), l)
}

// placed returns the place that Place has chosen for an incarnation; none if it was not called.
func (r *Runtime) placed(l runtime.Launch) (Place, error) {
	place, ok := r.places.Of(l.Path)
	if !ok || !place.isOf(l, r.Kind()) {
		return Place{}, nil
	}
	if _, lost := r.places.ending(place); lost {
		return Place{}, fmt.Errorf("%s: %w: %w: node %s", l.Path, runtime.ErrStale, runtime.ErrNodeLost, place.Node)
	}
	return place, nil
}

// Start implements runtime.Runtime.
func (r *Runtime) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	place, err := r.placed(l)
	if place.Node == "" && err == nil {
		place, err = r.place(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	l.Lease = place.Epoch
	s, err := r.at(place.Node).Start(ctx, l)
	switch {
	case errors.Is(err, runtime.ErrFenced): // this node, too, if it cannot move its deadline
		r.places.refuse(place)
	case err == nil && place.Node != r.places.Node:
		r.places.track(place, s)
	}
	return s, err
}

// leave returns an error if the last incarnation of an agent may run on another node than the one on which the next is
// to be started.
func (r *Runtime) leave(ctx context.Context, node string, l runtime.Launch) error {
	last, ok := r.places.Of(l.Path)
	if !ok || last.Node == node {
		return nil // the slot knows
	}
	if l.Incarnation <= last.Incarnation && !l.ResetNumbering {
		return fmt.Errorf("%s: %w: incarnation %d is not newer than %d, which was on node %s", l.Path,
			runtime.ErrStale, l.Incarnation, last.Incarnation, last.Node)
	}
	if r.places.hasEnded(last) {
		return nil
	}
	if last.Node != r.places.Node {
		if _, known := r.places.ending(last); known {
			if _, ended := r.places.end(last); !ended {
				return r.unknown(last)
			}
			return nil
		}
	}
	from := r.places.runtimeOf(last)
	if from == nil {
		return fmt.Errorf("%s may run on node %s: %w: there is no runtime %.40q", l.Path, last.Node, runtime.ErrUnknown,
			last.Kind)
	}
	// A node that finds none carries out no earlier start either.
	held, cancel := r.places.whileHeld(ctx, last)
	defer cancel()
	s, err := from.Adopt(held, l.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s may run on node %s: %w: %w", l.Path, last.Node, runtime.ErrUnknown, err)
	}
	select {
	case <-s.Done():
		return nil
	default:
		return fmt.Errorf("%s: %w on node %s", l.Path, runtime.ErrBusy, last.Node)
	}
}

// Adopt implements runtime.Runtime.
func (r *Runtime) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	place, ok := r.places.elsewhere(path)
	if !ok || place.Kind != r.Kind() {
		return r.Runtime.Adopt(ctx, path)
	}
	if _, soon := r.places.ending(place); !soon {
		held, cancel := r.places.whileHeld(ctx, place)
		defer cancel()
		s, err := r.at(place.Node).Adopt(held, path)
		if err == nil {
			r.places.track(place, s)
		}
		if err == nil || held.Err() == nil || ctx.Err() != nil {
			return s, err
		}
	}
	at, _ := r.places.ending(place)
	select {
	case <-time.After(time.Until(at)):
		return newLost(r.observe(place)), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// unknown returns an ErrUnknown for an incarnation that may run on another node.
func (r *Runtime) unknown(place Place) error {
	return fmt.Errorf("%s: %w: %s", place.Path, runtime.ErrUnknown, r.places.doubt(place))
}

// observe returns what is known of an incarnation on another node that does not answer.
func (r *Runtime) observe(place Place) runtime.Observation {
	o := runtime.Observation{
		Path: place.Path, Incarnation: place.Incarnation, SpecHash: place.SpecHash, Token: place.Token,
		StartedAt: place.At, Node: place.Node,
	}
	at, ended := r.places.end(place)
	if !ended {
		o.Detail = r.places.doubt(place)
		return o
	}
	o.Life, o.ExitedAt, o.Exit = runtime.Dead, at, lostExit(place.Node)
	return o
}

// Ready implements runtime.Runtime.
func (r *Runtime) Ready(ctx context.Context, path string, incarnation uint64) error {
	if place, ok := r.places.elsewhere(path); ok {
		if _, soon := r.places.ending(place); soon {
			return r.unknown(place)
		}
		return r.at(place.Node).Ready(ctx, path, incarnation)
	}
	return r.Runtime.Ready(ctx, path, incarnation)
}

// Remove implements runtime.Runtime. What the agent has left on nodes that are lost stays there.
func (r *Runtime) Remove(ctx context.Context, path string) error {
	place, ok := r.places.Of(path)
	if !ok || place.Kind != r.Kind() {
		return r.Runtime.Remove(ctx, path)
	}
	if _, lost := r.places.ending(place); !lost {
		if err := r.at(place.Node).Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	} else if _, ended := r.places.end(place); !ended {
		return r.unknown(place)
	}
	for _, node := range place.Before {
		if r.places.IsUp(node) {
			// It has ended there. A slot that stays takes space, and harms nothing.
			if err := r.at(node).Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				r.places.Logger.Warn("the slot of an agent that was removed stays on a node", "path", path,
					"node", node, "error", err)
			}
		}
	}
	return r.places.forget(ctx, path)
}

// Close does nothing: the runtime of the node stays open.
func (r *Runtime) Close() error { return nil }

// Owner implements runtime.Owner for the processes of this node.
func (r *Runtime) Owner(l proc.Lineage) (path string, at int) {
	if o, ok := r.Runtime.(runtime.Owner); ok {
		return o.Owner(l)
	}
	return "", -1
}

// Repair restores the slots of this node.
func (r *Runtime) Repair() []string {
	if rt, ok := r.Runtime.(interface{ Repair() []string }); ok {
		return rt.Repair()
	}
	return nil
}

// SetPerShim is that of the runtime of this node.
func (r *Runtime) SetPerShim(n int) {
	if rt, ok := r.Runtime.(interface{ SetPerShim(n int) }); ok {
		rt.SetPerShim(n)
	}
}

// AttachCommand is that of the runtime of this node.
func (r *Runtime) AttachCommand(path string) (argv []string, dir string, err error) {
	rt, ok := r.Runtime.(interface {
		AttachCommand(path string) (argv []string, dir string, err error)
	})
	if _, other := r.places.elsewhere(path); other || !ok {
		return nil, "", fmt.Errorf("%s: %w", path, runtime.ErrUnsupported)
	}
	return rt.AttachCommand(path)
}

// Settle removes the places of agents that have ended, here or with a lost node, so that they can be started elsewhere
// at once. local are the runtimes of this node.
func (p *Places) Settle(ctx context.Context, local []runtime.Runtime) error {
	living := make(map[string]bool)
	for _, rt := range local {
		all, err := rt.List(ctx)
		if err != nil {
			return err
		}
		for _, o := range all {
			living[o.Path] = living[o.Path] || o.Life != runtime.Dead
		}
	}
	var ended []string
	for _, place := range p.All() {
		_, lost := p.end(place)
		if place.Node == p.Node && !living[place.Path] || place.Node != p.Node && lost {
			ended = append(ended, place.Path)
		}
	}
	for some := range slices.Chunk(ended, store.MaxOpsOf(p.Store)) {
		if err := p.forget(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}

// Sweep ends what runs in slots of this node of agents that have been placed elsewhere since. They have certainly
// ended: one that has not is a fault. What they have left stays, for when they come back.
func (r *Runtime) Sweep(ctx context.Context, evict func(ctx context.Context, path string) error) error {
	here, err := r.Runtime.List(ctx)
	if err != nil {
		return err
	}
	for _, o := range here {
		place, ok := r.places.elsewhere(o.Path)
		if !ok || o.Life == runtime.Dead {
			continue
		}
		r.places.Logger.Error("an agent that was placed on another node since is still here, and is stopped",
			"path", o.Path, "node", place.Node, "state", o.Life, "detail", o.Detail)
		if err := evict(ctx, o.Path); err != nil {
			return err
		}
	}
	return nil
}
