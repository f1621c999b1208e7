// Package registry has the nodes of a fleet: which there are, how to reach them and what they may take. A node is in
// it from when it joins until it is removed, whether it runs or not.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/nodename"
	"github.com/coppice-dev/coppice/internal/store"
)

// Prefix is the prefix of the keys of nodes, which end with their names.
const Prefix = "cluster/nodes"

// LeaseOf returns the name of the lease of a node.
func LeaseOf(node string) string { return "nodes/" + node }

// MaxCapacity is the largest capacity of a node.
const MaxCapacity = 100_000

// Errors of the registry.
var (
	ErrTaken   = errors.New("the name belongs to another node, which has another key")
	ErrUnknown = errors.New("no such node")
)

// Node is a machine of the fleet.
type Node struct {
	Name   string    `json:"name"`
	Key    []byte    `json:"key"` // the SHA-256 of its public key
	Joined time.Time `json:"joined"`
	// Draining means that it takes no agents, and gives away those that it has.
	Draining bool `json:"draining,omitempty"`
	// Ends means that it takes no agents, because it was stopped, until it announces itself again.
	Ends bool `json:"ends,omitempty"`
	// Epoch is that of its lease when it has announced itself last; 0 if it has not.
	Epoch uint64 `json:"epoch,omitempty"`
	Info
}

// Info describes a node; the node announces it.
type Info struct {
	Address  string            `json:"address,omitempty"` // host:port at which other nodes reach it
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity int               `json:"capacity,omitempty"` // agents that it takes; 0 is no limit
	Version  string            `json:"version,omitempty"`  // of Coppice
	// Files is the revision of its files of the project: that of the controller counts for the fleet.
	Files string `json:"files,omitempty"`
}

// HasOther reports whether a node has other files of the project than another one, as far as both have said.
func (i Info) HasOther(files string) bool { return i.Files != "" && files != "" && i.Files != files }

// Check returns what is wrong with an Info, or nil.
func (i Info) Check() error {
	if err := jointoken.CheckAddress(i.Address); err != nil {
		return err
	}
	if i.Capacity < 0 || i.Capacity > MaxCapacity {
		return fmt.Errorf("the capacity is %d, expected 0 to %d agents", i.Capacity, MaxCapacity)
	}
	return nodename.CheckLabels(i.Labels)
}

func (n Node) equal(other Node) bool { return reflect.DeepEqual(n, other) }

// decode reads a record.
func decode(r store.Record) (n Node, err error) {
	if err := json.Unmarshal(r.Value, &n); err != nil {
		return n, err
	}
	if err := pki.CheckName(n.Name); err != nil {
		return n, err
	}
	if r.Key != key(n.Name) || len(n.Key) != 32 {
		return n, errors.New("its name or its key is wrong")
	}
	return n, nil
}

func damaged(node string, err error) error {
	return fmt.Errorf("the record of node %s is damaged: %w; remove it with: coppice node rm %s", node, err, node)
}

func key(node string) string { return Prefix + "/" + node }

// Join adds a node, or finds it with the same key. The error wraps ErrTaken if the name has another key.
func Join(ctx context.Context, s store.Store, node string, hash [32]byte) error {
	if err := pki.CheckName(node); err != nil {
		return err
	}
	value, err := json.Marshal(Node{Name: node, Key: hash[:], Joined: time.Now().UTC().Round(0)})
	if err != nil {
		return err
	}
	r, created, err := record.Create(ctx, s, key(node), value)
	if err != nil || created {
		return err
	}
	have, err := decode(r)
	switch {
	case err != nil:
		return damaged(node, err)
	case [32]byte(have.Key) != hash:
		return fmt.Errorf("node %s: %w", node, ErrTaken)
	}
	return nil
}

// Announce says how a node is reached and what it takes. It is called by the node, with the fence of its lease.
func Announce(ctx context.Context, s store.Store, node string, fence store.Fence, i Info) error {
	if err := i.Check(); err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return update(ctx, s, node, fence, func(n *Node) { n.Info, n.Epoch, n.Ends = i, fence.Epoch, false })
}

// Withdraw says that a node ends: it takes no agents until it announces itself again.
func Withdraw(ctx context.Context, s store.Store, node string, fence store.Fence) error {
	return update(ctx, s, node, fence, func(n *Node) { n.Ends = true })
}

// SetDraining starts or ends the draining of a node.
func SetDraining(ctx context.Context, s store.Store, node string, draining bool) error {
	return update(ctx, s, node, store.Fence{}, func(n *Node) { n.Draining = draining })
}

// update changes a record until the store has the change.
func update(ctx context.Context, s store.Store, node string, fence store.Fence, change func(*Node)) error {
	for {
		r, err := find(ctx, s, node)
		if err != nil {
			return err
		}
		n, err := decode(r)
		if err != nil {
			return damaged(node, err)
		}
		before := n
		change(&n)
		if n.equal(before) && fence == (store.Fence{}) {
			return nil // also if an attempt whose outcome is unknown was done
		}
		value, err := json.Marshal(n)
		if err != nil {
			return err
		}
		_, err = s.Apply(ctx, fence, []store.Cond{{Key: r.Key, Rev: r.Rev}},
			[]store.Op{{Kind: store.Put, Key: r.Key, Value: value}})
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// All returns the nodes that are in a store, by name, without damaged ones.
func All(ctx context.Context, s store.Store) (all []Node, err error) {
	records, _, err := s.Snapshot(ctx, Prefix)
	for _, r := range records {
		if n, err := decode(r); err == nil {
			all = append(all, n)
		}
	}
	return all, err
}

// find returns the record of a node. The error wraps ErrUnknown if there is none.
func find(ctx context.Context, s store.Store, node string) (store.Record, error) {
	if err := pki.CheckName(node); err != nil {
		return store.Record{}, err
	}
	r, err := store.Get(ctx, s, key(node))
	if err == nil && r.Rev == 0 {
		err = fmt.Errorf("%s: %w; those of the fleet are listed by: coppice node ls", node, ErrUnknown)
	}
	return r, err
}

// Remove removes a node, also one whose record is damaged. It is no longer admitted by the others.
func Remove(ctx context.Context, s store.Store, node string) error {
	for {
		r, err := find(ctx, s, node)
		if err != nil {
			return err
		}
		if gone, err := record.Delete(ctx, s, r); gone || err != nil {
			return err
		}
	}
}
