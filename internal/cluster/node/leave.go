package node

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/store"
)

// asking notes the time from which the next deadline counts.
func (n *Node) asking() {
	if now, err := deadline.Now(); err == nil {
		n.sent.Store(int64(now))
	}
}

// renewed moves the deadline of the agents, unless these are being ended: the lease is held until that is done.
func (n *Node) renewed(l store.Lease) {
	n.leaving.Lock()
	defer n.leaving.Unlock()
	if l.Fence().Epoch <= n.left {
		return
	}
	if err := n.until.Move(deadline.Instant(n.sent.Load()).Add(n.o.TTL)); err != nil {
		n.o.Logger.Error("the agents of this node will be stopped at their last deadline", "error", err)
	}
}

// keeps reports whether a node that ends with an error leaves its agents to the next process. A node that may not have
// them any longer does not.
func keeps(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), ErrKeeping) && !errors.Is(err, ErrSteppedDown) &&
		!errors.Is(err, registry.ErrRemoved)
}

// withdrawTimeout bounds the time in which the others are told that this node ends.
const withdrawTimeout = 2 * time.Second

// leave ends what runs on this node.
func (n *Node) leave(ctx context.Context, fence store.Fence) {
	lost := errors.Is(context.Cause(ctx), election.ErrLost)
	if err := n.expire(fence, lost); err != nil {
		n.o.Logger.Error("agents could still be started here", "error", err)
	}
	if !lost {
		telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		if err := registry.Withdraw(telling, n.o.Store, n.o.Name, fence); err != nil {
			n.o.Logger.Warn("the others are not told that this node ends", "error", err)
		}
	}
	n.o.Leave(context.WithoutCancel(ctx)) // until it is done, others must not have the lease of this node
}

// expire ends the deadline of the agents that have run under a lease: none is started here until the node has another.
func (n *Node) expire(fence store.Fence, lost bool) error {
	n.leaving.Lock()
	defer n.leaving.Unlock()
	n.left = fence.Epoch
	if lost {
		return n.until.Expire()
	}
	return n.until.Leave(n.o.Name)
}
