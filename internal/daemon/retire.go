package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// This file is about pools that the file does not have any more. They stay in
// the fleet, and want nobody, until the last of their instances has finished; and
// what they are made of is kept in the store until then, for the next controller.

// retiredReason is the reason of drains by such pools.
const retiredReason = "its pool is not in the file any more"

// surplusReason is the reason of drains by pools.
const surplusReason = "its pool does not want it any more"

// relayPause is the time between two attempts to change the fleet.
const relayPause = 500 * time.Millisecond

// retiredPrefix is where what retired pools are made of is in the store.
const retiredPrefix = "retired"

// savedPool is a pool that the file does not have any more.
type savedPool struct {
	Path     string      `json:"path"`
	Template *spec.Agent `json:"template"`
}

func retiredKey(path string) string { return retiredPrefix + "/" + store.PathKey(path) }

// retiredOp writes it. What its instances believe is not a part of it: they
// have begun with that.
func retiredOp(path string, template *spec.Agent) store.Op {
	kept := *template
	kept.Beliefs = nil
	value, err := json.Marshal(savedPool{path, &kept})
	if err != nil { // strings, numbers and lists of them
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: retiredKey(path), Value: value}
}

// recallRetired are the pools that were retired and that the file has not got
// back. Those of which nothing is left go at once.
func (c *Controller) recallRetired(ctx context.Context) (all []*crew, err error) {
	stored, _, err := c.opts.Store.Snapshot(ctx, retiredPrefix)
	if err != nil {
		return nil, fmt.Errorf("reading which pools are not in the file any more: %w", err)
	}
	for _, s := range stored {
		var kept savedPool
		if json.Unmarshal(s.Value, &kept) != nil || kept.Template == nil || kept.Template.Pool == nil || retiredKey(kept.Path) != s.Key {
			c.opts.Logger.Warn("a pool that is not in the file any more cannot be read: its instances are stopped", "key", s.Key)
			continue
		}
		if c.crews.byPath[kept.Path] != nil {
			c.log.Append(returned(kept.Path), store.Op{Kind: store.Delete, Key: s.Key})
			continue
		}
		w := newCrew(c, kept.Path, kept.Template)
		w.retired, w.booted = true, true
		w.arrived()
		all = append(all, w)
	}
	return all, nil
}

// remains are what the instances of a crew are made of, if there are any; else nil.
func (w *crew) remains() *spec.Agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.laid)+len(w.names)+len(w.leaving) == 0 {
		return nil
	}
	return w.template
}

// retire lets the instances finish, as the file has no such pool any more. It
// reports false if they have been asked to already.
func (w *crew) retire() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired {
		return false
	}
	w.retired = true
	w.arrived()
	w.c.log.Append(event.Event{
		Type: event.PoolRetired, Path: w.path, Actor: "controller",
		Message: fmt.Sprintf("%s is not in the file any more: what is left of it, %s, may finish", w.path, instances(len(w.names)+len(w.leaving))),
	}, retiredOp(w.path, w.template))
	poke(w.wake)
	return true
}

// declare gives a crew what the file says of its pool.
func (w *crew) declare(template *spec.Agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := w.retired || !slices.Equal(w.template.Pool.Check, template.Pool.Check)
	if w.retired {
		w.retired = false
		w.c.log.Append(returned(w.path), store.Op{Kind: store.Delete, Key: retiredKey(w.path)})
	}
	w.template = template
	if again {
		poke(w.look)
	}
	poke(w.wake)
}

func returned(path string) event.Event {
	return event.Event{Type: event.PoolReturned, Path: path, Actor: "controller", Message: path + " is in the file again, and goes on"}
}

// removed notes that nothing is left of a pool that was retired.
func (w *crew) removed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired {
		w.c.log.Append(event.Event{
			Type: event.PoolRemoved, Path: w.path, Actor: "controller", Message: w.path + " is not in the file any more, and all of it is gone",
		}, store.Op{Kind: store.Delete, Key: retiredKey(w.path)})
	}
}

// wantedSize is how many instances there should be. Needs mu.
func (w *crew) wantedSize() int {
	if w.retired {
		return 0
	}
	return w.demand.Size(w.template.Pool)
}

// surplusWhy is why those that are too many are asked to finish. Needs mu.
func (w *crew) surplusWhy() string {
	if w.retired {
		return retiredReason
	}
	return surplusReason
}
