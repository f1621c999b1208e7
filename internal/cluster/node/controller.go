package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/store"
)

// controllerKey is the key of the record of the controller.
const controllerKey = "cluster/controller"

// Controller says which node is the controller, or was the last one.
type Controller struct {
	Node  string    `json:"node"`
	Epoch uint64    `json:"epoch"` // of its lease
	Since time.Time `json:"since"`
	// Down means that it has stopped the whole fleet.
	Down bool `json:"down,omitempty"`
}

// ReadController returns the record of the controller, which is zero if there was none yet.
func ReadController(ctx context.Context, s store.Store) (c Controller, err error) {
	r, err := store.Get(ctx, s, controllerKey)
	if err == nil && r.Rev != 0 {
		err = json.Unmarshal(r.Value, &c)
	}
	if err != nil {
		return Controller{}, fmt.Errorf("reading which node is the controller: %w", err)
	}
	return c, nil
}

// Lead writes that this node is the controller, by which the others find it. s is fenced by the lease of the
// controller. It gives up when ctx ends, or the lease is lost.
func (n *Node) Lead(ctx context.Context, s store.Store, epoch uint64) {
	for {
		err := n.write(ctx, s, Controller{Node: n.o.Name, Epoch: epoch, Since: time.Now().UTC().Round(0)})
		if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrFenced) {
			return
		}
		n.o.Logger.Warn("the other nodes are not told that this one is the controller; trying on", "error", err)
		if sleep(ctx, announcePause) != nil {
			return
		}
	}
}

// StopFleet tells all nodes to end, as this one does, because the fleet was stopped.
func (n *Node) StopFleet(ctx context.Context, s store.Store, epoch uint64) error {
	return n.write(ctx, s, Controller{Node: n.o.Name, Epoch: epoch, Since: time.Now().UTC().Round(0), Down: true})
}

func (n *Node) write(ctx context.Context, s store.Store, c Controller) error {
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = s.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: controllerKey, Value: value}})
	return err
}

// follower has the record of the controller.
type follower struct {
	s      store.Store
	logger *slog.Logger

	mu      sync.Mutex
	now     Controller
	rev     store.Rev // of the record
	first   store.Rev // of the record when the follower began
	changed chan struct{}
}

func newFollower(ctx context.Context, s store.Store, logger *slog.Logger) (*follower, error) {
	f := &follower{s: s, logger: logger, changed: make(chan struct{})}
	_, err := f.load(ctx)
	f.first = f.rev
	return f, err
}

// run follows the store until ctx ends.
func (f *follower) run(ctx context.Context) {
	record.Follow(ctx, f.s, controllerKey, f.load, func(c store.Change) {
		for _, r := range c.Put {
			f.take(r)
		}
	}, func(err error) {
		f.logger.Warn("cannot follow which node is the controller; trying on", "error", err)
	})
}

func (f *follower) load(ctx context.Context) (store.Rev, error) {
	all, rev, err := f.s.Snapshot(ctx, controllerKey)
	if err == nil && len(all) > 0 {
		f.take(all[0])
	}
	return rev, err
}

func (f *follower) take(r store.Record) {
	var c Controller
	if json.Unmarshal(r.Value, &c) != nil {
		return // of a later version
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Rev <= f.rev {
		return
	}
	f.now, f.rev = c, r.Rev
	close(f.changed)
	f.changed = make(chan struct{})
}

// get returns the record, and a channel that is closed when it changes.
func (f *follower) get() (c Controller, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.changed
}

// awaitDown calls down when the fleet was stopped since the follower began.
func (f *follower) awaitDown(ctx context.Context, down func()) {
	for {
		f.mu.Lock()
		is, changed := f.now.Down && f.rev > f.first, f.changed
		f.mu.Unlock()
		if is {
			down()
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
