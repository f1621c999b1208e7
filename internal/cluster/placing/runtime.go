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
	"github.com/coppice-dev/coppice/supervisor"
)

// Runtime is a runtime.Runtime of the whole fleet, of one kind. It starts agents on this node, and knows what has run
// on others.
type Runtime struct {
	runtime.Runtime // of this node
	places          *Places
}

// New returns a runtime of the fleet that starts agents in a runtime of this node.
func New(local runtime.Runtime, p *Places) *Runtime { return &Runtime{local, p} }

// unknown returns an ErrUnknown for an incarnation that may run on another node.
func (r *Runtime) unknown(place Place) error {
	return fmt.Errorf("%s: %w: %s", place.Path, runtime.ErrUnknown, r.places.doubt(place))
}

// Start implements runtime.Runtime.
func (r *Runtime) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	if place, ok := r.places.elsewhere(l.Path); ok {
		if _, ended := r.places.end(place); !ended {
			return nil, r.unknown(place)
		}
		if l.Incarnation <= place.Incarnation && !l.ResetNumbering {
			return nil, fmt.Errorf("%s: %w: incarnation %d is not newer than %d, which was on node %s", l.Path,
				runtime.ErrStale, l.Incarnation, place.Incarnation, place.Node)
		}
	}
	if err := r.places.take(ctx, r.Kind(), l); err != nil {
		return nil, err
	}
	return r.Runtime.Start(ctx, l)
}

// Adopt implements runtime.Runtime.
func (r *Runtime) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	place, ok := r.places.elsewhere(path)
	if !ok || place.Kind != r.Kind() {
		return r.Runtime.Adopt(ctx, path)
	}
	at, ended := r.places.end(place)
	if !ended && !at.IsZero() { // soon
		select {
		case <-time.After(time.Until(at)):
			_, ended = r.places.end(place)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if !ended {
		return nil, r.unknown(place)
	}
	return newLost(r.observe(place)), nil
}

// observe returns what is known of an incarnation on another node.
func (r *Runtime) observe(place Place) runtime.Observation {
	o := runtime.Observation{
		Path: place.Path, Incarnation: place.Incarnation, SpecHash: place.SpecHash, Token: place.Token,
		StartedAt: place.At,
	}
	at, ended := r.places.end(place)
	if !ended {
		o.Detail = r.places.doubt(place)
		return o
	}
	o.Life, o.ExitedAt = runtime.Dead, at
	o.Exit = supervisor.Exit{
		Kind: supervisor.Lost, Err: fmt.Errorf("%w: node %s", runtime.ErrNodeLost, place.Node),
	}
	return o
}

// Ready implements runtime.Runtime.
func (r *Runtime) Ready(ctx context.Context, path string, incarnation uint64) error {
	if place, ok := r.places.elsewhere(path); ok {
		return r.unknown(place)
	}
	return r.Runtime.Ready(ctx, path, incarnation)
}

// List implements runtime.Runtime.
func (r *Runtime) List(ctx context.Context) ([]runtime.Observation, error) {
	here, err := r.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []runtime.Observation
	for _, o := range here {
		if _, ok := r.places.elsewhere(o.Path); !ok {
			all = append(all, o)
		}
	}
	for _, place := range r.places.All() {
		if place.Node != r.places.Node && place.Kind == r.Kind() {
			all = append(all, r.observe(place))
		}
	}
	return all, nil
}

// Remove implements runtime.Runtime.
func (r *Runtime) Remove(ctx context.Context, path string) error {
	place, ok := r.places.Of(path)
	if !ok || place.Kind != r.Kind() {
		return r.Runtime.Remove(ctx, path)
	}
	if place.Node != r.places.Node {
		if _, ended := r.places.end(place); !ended {
			return r.unknown(place)
		}
	}
	if err := r.Runtime.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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
