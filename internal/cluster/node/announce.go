package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
)

// announcePause is the time between two attempts to announce the node.
const announcePause = time.Second

// announce says how the node is reached, until the store has it.
func (n *Node) announce(ctx context.Context, fence store.Fence) error {
	for told := false; ; told = true {
		err := registry.Announce(ctx, n.o.Store, n.o.Name, fence, n.o.Info())
		switch {
		case err == nil:
			return nil
		case errors.Is(err, registry.ErrUnknown):
			return registry.ErrRemoved
		case ctx.Err() == nil && !told:
			n.o.Logger.Warn("cannot announce this node to the others; trying on", "error", err)
		}
		if err := sleep(ctx, announcePause); err != nil {
			return err
		}
	}
}

// InfoChanged has the node tell the others what it announces, which has changed.
func (n *Node) InfoChanged() {
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// keepAnnounced announces the node each time that InfoChanged was called, until end is called.
func (n *Node) keepAnnounced(ctx context.Context, fence store.Fence) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		for {
			select {
			case <-n.news:
				if n.announce(ctx, fence) != nil {
					return // it ends
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}
