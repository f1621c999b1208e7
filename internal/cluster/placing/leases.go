package placing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// checkInterval is the time between two looks at the leases of other nodes, and restInterval if the store tells when
// one ends. checkTimeout bounds the first look.
const (
	checkInterval = 500 * time.Millisecond
	restInterval  = 5 * time.Second
	checkTimeout  = 5 * time.Second
)

// maxChecks bounds the leases that are looked at at the same time.
const maxChecks = 8

// Run finds out which leases of other nodes have ended, until ctx ends.
func (p *Places) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	told := make(chan struct{}) // closed when the store no longer tells
	go func() {
		defer close(told)
		f, ok := p.Store.(store.LeaseFollower)
		if !ok {
			return
		}
		_ = f.FollowLeases(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	defer func() { <-told }()
	for interval, ended := restInterval, told; ; {
		p.checkAll(ctx)
		select {
		case <-changed:
		case <-time.After(interval):
		case <-ended:
			interval, ended = checkInterval, nil
		case <-ctx.Done():
			return
		}
	}
}

// look looks at all leases once, so that nothing is placed on a node that was lost before.
func (p *Places) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	p.checkAll(ctx)
}

func (p *Places) checkAll(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxChecks)
	for _, l := range p.others() {
		slots <- struct{}{}
		wg.Go(func() {
			p.check(ctx, l)
			<-slots
		})
	}
}

// others returns the leases of other nodes that may not have ended: of those on which agents have their places, and of
// all that may get some.
func (p *Places) others() []lease {
	all := map[lease]bool{}
	for _, n := range p.Nodes() {
		if n.Epoch != 0 {
			all[lease{n.Name, n.Epoch}] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, place := range p.all {
		all[lease{place.Node, place.Epoch}] = true
	}
	maps.DeleteFunc(all, func(l lease, _ bool) bool {
		_, ended := p.ended[l]
		return l.node == p.Node || ended
	})
	return slices.Collect(maps.Keys(all))
}

// check looks whether a lease has ended. The answer of the store is final: see store.ErrFenced.
func (p *Places) check(ctx context.Context, l lease) {
	_, err := p.Store.Apply(ctx, store.Fence{Lease: registry.LeaseOf(l.node), Epoch: l.epoch}, nil, nil)
	if !errors.Is(err, store.ErrFenced) {
		return
	}
	p.mu.Lock()
	now, had := time.Now(), false
	p.ended[l] = now
	close(p.news)
	p.news = make(chan struct{})
	for _, place := range p.all {
		had = had || l == place.lease()
	}
	for _, t := range p.sessions {
		if t.place.lease() == l {
			t.lost(now)
		}
	}
	p.mu.Unlock()
	if had {
		p.Lost(l.node, l.epoch)
	}
}

// whileHeld returns a context that also ends when the lease of a place is known to have ended: a node that does not
// answer is not waited for then.
func (p *Places) whileHeld(ctx context.Context, place Place) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			p.mu.Lock()
			_, ended := p.ended[place.lease()]
			news := p.news
			p.mu.Unlock()
			if ended {
				cancel()
				return
			}
			select {
			case <-news:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

func (p Place) lease() lease { return lease{p.Node, p.Epoch} }

// tracked is a session on another node.
type tracked struct {
	place   Place
	session runtime.Session
}

// track has a session end when its node is lost.
func (p *Places) track(place Place, s runtime.Session) {
	t := tracked{place, s}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[place.Path] = t
	if at, ended := p.ended[place.lease()]; ended {
		t.lost(at)
	}
}

// hasEnded reports whether an incarnation on another node was seen to end.
func (p *Places) hasEnded(place Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.sessions[place.Path]
	if !ok || t.place.lease() != place.lease() || t.place.Incarnation != place.Incarnation {
		return false
	}
	select {
	case <-t.session.Done():
		return true
	default:
		return false
	}
}

// lost has the session end, as lost, when it certainly has: some time after the lease of its node has.
func (t tracked) lost(at time.Time) {
	s, ok := t.session.(interface {
		Lost(supervisor.Exit, time.Time)
	})
	if !ok {
		return
	}
	at = at.Add(t.place.Within)
	time.AfterFunc(time.Until(at), func() { s.Lost(lostExit(t.place.Node), at) })
}

// lostExit is the exit of an incarnation that has ended with its node.
func lostExit(node string) supervisor.Exit {
	return supervisor.Exit{Kind: supervisor.Lost, Err: fmt.Errorf("%w: node %s", runtime.ErrNodeLost, node)}
}
