package controller

import (
	"context"
	"sync"
)

// background runs goroutines that end with the tree.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	wg     sync.WaitGroup
}

func newBackground() *background {
	b := new(background)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// run runs f, which gives up when its context ends; not at all if that is over.
func (b *background) run(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() == nil {
		b.wg.Go(func() { f(b.ctx) })
	}
}

// end ends everything and waits for it.
func (b *background) end() {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.wg.Wait()
}

// wake puts a token into a channel that has room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
