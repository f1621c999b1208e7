// Package nodes shows and manages the nodes of a fleet for people. All that it needs is in the store, so that it works
// without a controller.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
)

// State is the state of a node.
type State string

// States of nodes.
const (
	Ready    State = "ready"
	Draining State = "draining" // and runs
	Lost     State = "lost"     // its lease has ended: it was stopped, or is cut off
	Joined   State = "joined"   // it has not run yet
	Unknown  State = "unknown"  // the store does not answer
)

// filesOf returns the revision of the files of a node; empty if it is not known.
func filesOf(all []registry.Node, name string) string {
	for _, n := range all {
		if n.Name == name {
			return n.Files
		}
	}
	return ""
}

// runs reports whether the daemon of a node runs.
func (s State) runs() bool { return s == Ready || s == Draining }

// Info describes a node.
type Info struct {
	Name       string            `json:"name"`
	State      State             `json:"state"`
	Controller bool              `json:"controller"`
	Paths      []string          `json:"agents"`             // those that have their place on it
	Capacity   int               `json:"capacity,omitempty"` // how many it takes; 0 is no limit
	Address    string            `json:"address,omitempty"`  // HOST:PORT at which other nodes reach it
	Labels     map[string]string `json:"labels,omitempty"`
	Version    string            `json:"version,omitempty"` // of Coppice when it has started last
	// OtherFiles says that it runs with other files of the project than the controller.
	OtherFiles bool      `json:"other_files,omitempty"`
	Joined     time.Time `json:"joined"`
}

// List returns all nodes, by name.
func List(ctx context.Context, s store.Store) ([]Info, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	all, err := registry.All(ctx, s)
	if err != nil {
		return nil, err
	}
	places, _, err := placing.Read(ctx, s) // those that are damaged may be anywhere
	if err != nil {
		return nil, err
	}
	controller, err := node.ReadController(ctx, s)
	if err != nil {
		return nil, err
	}
	files := filesOf(all, controller.Node)
	infos := make([]Info, len(all))
	var wg sync.WaitGroup
	for i, n := range all {
		infos[i] = Info{
			Name: n.Name, Controller: n.Name == controller.Node && !controller.Down, Paths: []string{},
			Capacity: n.Capacity, Address: n.Address, Labels: n.Labels, Version: n.Version, Joined: n.Joined,
		}
		for _, p := range places {
			if p.Node == n.Name {
				infos[i].Paths = append(infos[i].Paths, p.Path)
			}
		}
		wg.Go(func() {
			infos[i].State = stateOf(ctx, s, n)
			infos[i].OtherFiles = infos[i].State.runs() && n.HasOther(files)
		})
	}
	wg.Wait()
	for i := range infos { // its record stays until there is another one
		infos[i].Controller = infos[i].Controller && infos[i].State != Lost
	}
	return infos, nil
}

// readTime bounds what List asks of the store.
const readTime = 20 * time.Second

// stateOf asks the store whether a node has its lease.
func stateOf(ctx context.Context, s store.Store, n registry.Node) State {
	if n.Epoch == 0 {
		return Joined
	}
	_, err := s.Apply(ctx, store.Fence{Lease: registry.LeaseOf(n.Name), Epoch: n.Epoch}, nil, nil)
	switch {
	case errors.Is(err, store.ErrFenced):
		return Lost
	case err != nil:
		return Unknown
	case n.Draining:
		return Draining
	}
	return Ready
}

// Find returns the node with a name, and all nodes.
func Find(ctx context.Context, s store.Store, name string) (n Info, all []Info, err error) {
	if all, err = List(ctx, s); err != nil {
		return n, nil, err
	}
	i := slices.IndexFunc(all, func(n Info) bool { return n.Name == name })
	if i < 0 {
		return n, all, fmt.Errorf("%.70q: %w; those of the fleet are listed by: coppice node ls", name,
			registry.ErrUnknown)
	}
	return all[i], all, nil
}

// ErrRefused is returned for what cannot be done to a node in its state.
var ErrRefused = errors.New("not possible now")

// Drain starts or ends the draining of a node, and returns its new state. A node is only drained if another one is
// ready to take over.
func Drain(ctx context.Context, s store.Store, name string, drain bool) (State, error) {
	n, all, err := Find(ctx, s, name)
	if err != nil {
		return "", err
	}
	others := slices.ContainsFunc(all, func(other Info) bool { return other.Name != name && other.State == Ready })
	if drain && n.State == Ready && !others {
		return n.State, fmt.Errorf("%w: node %s is the only one that is ready, so that nothing could take over from it",
			ErrRefused, name)
	}
	if err := registry.SetDraining(ctx, s, name, drain); err != nil {
		return n.State, err
	}
	switch {
	case !drain && n.State == Draining:
		return Ready, nil
	case drain && n.State == Ready:
		return Draining, nil
	}
	return n.State, nil
}

// Remove removes a node that does not run. The others no longer admit it until it joins again.
func Remove(ctx context.Context, s store.Store, name string) error {
	n, _, err := Find(ctx, s, name)
	switch {
	case err != nil:
		return err
	case n.State == Ready, n.State == Draining:
		return fmt.Errorf("%w: node %s runs; stop its daemon first", ErrRefused, name)
	case n.State == Unknown:
		return fmt.Errorf("%w: it cannot be determined whether node %s runs", ErrRefused, name)
	}
	return registry.Remove(ctx, s, name)
}
