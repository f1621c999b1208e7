package pool

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// A pool that is no longer in the file is retired. It stays in the fleet, with a wanted size of 0,
// until the last of its instances has finished. Until then the store keeps its template for the next
// daemon.

// Reasons of the drains of instances.
const (
	surplusReason = "its pool no longer wants it"
	retiredReason = "its pool is no longer in the file"
)

// retiredPrefix is the prefix of the store keys of retired pools.
const retiredPrefix = "retired"

// savedPool is a retired pool.
type savedPool struct {
	Path     string      `json:"path"`
	Template *spec.Agent `json:"template"`
}

func retiredKey(path string) string { return retiredPrefix + "/" + store.PathKey(path) }

// retiredOp writes a retired pool, without the initial beliefs, which only new instances would need.
func retiredOp(path string, template *spec.Agent) store.Op {
	kept := *template
	kept.Beliefs = nil
	value, err := json.Marshal(savedPool{path, &kept})
	if err != nil { // strings, numbers and lists of them
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: retiredKey(path), Value: value}
}

func (c *Controller) isRetired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retired
}

// retire makes the pool a retired one, whose instances finish. It reports false if it is one already.
func (c *Controller) retire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return false
	}
	c.retired = true
	c.closeFirst()
	left := instances(len(c.names) + len(c.removing))
	c.m.Append(event.Event{
		Type: event.PoolRetired, Path: c.path, Actor: "controller",
		Message: fmt.Sprintf("%s is no longer in the file: what is left of it, %s, may finish", c.path, left),
	}, retiredOp(c.path, c.template))
	signal(c.wake)
	return true
}

// declare applies the template of the pool in the file.
func (c *Controller) declare(template *spec.Agent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := c.retired || !slices.Equal(c.template.Pool.Check, template.Pool.Check)
	if c.retired {
		c.retired = false
		c.m.Append(returned(c.path), store.Op{Kind: store.Delete, Key: retiredKey(c.path)})
	}
	c.template = template
	if again {
		signal(c.checkNow)
	}
	signal(c.wake)
}

func returned(path string) event.Event {
	return event.Event{
		Type: event.PoolReturned, Path: path, Actor: "controller", Message: path + " is in the file again, and goes on",
	}
}

// logRemoved logs that a retired pool has no instances left.
func (c *Controller) logRemoved() {
	if !c.isRetired() {
		return
	}
	c.m.Append(event.Event{
		Type: event.PoolRemoved, Path: c.path, Actor: "controller",
		Message: c.path + " is no longer in the file, and all of it is gone",
	}, store.Op{Kind: store.Delete, Key: retiredKey(c.path)})
}

// surplusReason returns the reason of drains of surplus instances. Needs mu.
func (c *Controller) surplusReason() string {
	if c.retired {
		return retiredReason
	}
	return surplusReason
}
