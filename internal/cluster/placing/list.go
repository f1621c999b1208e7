package placing

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// listTimeout bounds the time in which a node says what it has.
const listTimeout = 5 * time.Second

// List implements runtime.Runtime. What is on a node that does not answer is unknown.
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
	held := map[leases.Lease][]Place{}
	for _, place := range r.places.All() {
		if place.Node == r.places.Node || place.Kind != r.Kind() {
			continue
		}
		if _, soon := r.places.ending(place); soon {
			all = append(all, r.observe(place))
			continue
		}
		held[place.lease()] = append(held[place.lease()], place)
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, places := range held {
		asking.Go(func() {
			there := r.listOn(ctx, places)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, there...)
		})
	}
	asking.Wait()
	return all, nil
}

// listOn returns what runs, or has run last, in the slots of agents that were started under one lease of another node.
func (r *Runtime) listOn(ctx context.Context, places []Place) (all []runtime.Observation) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	ctx, release := r.places.whileHeld(ctx, places[0])
	defer release()
	node := places[0].Node
	there, err := r.at(node).List(ctx)
	if err != nil {
		r.places.Logger.Warn("it is not known what runs on a node", "node", node, "error", err)
		for _, place := range places {
			o := r.observe(place)
			if o.Life == runtime.Unknown {
				o.Detail = err.Error()
			}
			all = append(all, o)
		}
		return all
	}
	slots := make(map[string]runtime.Observation, len(there))
	for _, o := range there {
		slots[o.Path] = o
	}
	for _, place := range places {
		if o, ok := slots[place.Path]; ok { // or it was never started
			all = append(all, o)
		}
	}
	return all
}
