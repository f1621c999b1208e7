package placing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// checkInterval is the time between two looks at the leases of other nodes, and restInterval if the store tells when
// one ends. checkTimeout bounds the first look.
const (
	checkInterval = 500 * time.Millisecond
	restInterval  = 5 * time.Second
	checkTimeout  = 5 * time.Second
)

// Run finds out which leases of other nodes have ended, until ctx ends.
func (p *Places) Run(ctx context.Context) {
	interval := checkInterval
	if p.Leases.IsTold() {
		interval = restInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		changed := p.Leases.Changed()
		p.settleEnded()
		select {
		case <-changed:
		case <-tick.C:
			p.Leases.Look(ctx, p.others())
		case <-ctx.Done():
			return
		}
	}
}

// look looks at all leases once, so that nothing is placed on a node that was lost before.
func (p *Places) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	p.Leases.Look(ctx, p.others())
	p.settleEnded()
}

// others returns the leases of other nodes on which agents have their places, and of all that may get some.
func (p *Places) others() []leases.Lease {
	all := map[leases.Lease]bool{}
	for _, n := range p.Nodes() {
		all[leases.Of(n)] = n.Epoch != 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, place := range p.all {
		all[place.lease()] = true
	}
	maps.DeleteFunc(all, func(l leases.Lease, is bool) bool { return !is || l.Node == p.Node })
	return slices.Collect(maps.Keys(all))
}

// settleEnded does what follows from the ends of leases of other nodes, once for each.
func (p *Places) settleEnded() {
	had := map[leases.Lease]bool{}
	p.mu.Lock()
	for _, t := range p.sessions {
		if at, ended := p.endedNow(t.place); ended {
			t.lost(at)
		}
	}
	for _, place := range p.all {
		if _, ended := p.endedNow(place); ended {
			had[place.lease()] = true
		}
	}
	maps.Copy(p.settled, had)
	p.mu.Unlock()
	for l := range had {
		p.Lost(l.Node, l.Epoch)
	}
}

// endedNow returns when the lease of a place on another node has ended, if that was not settled yet. It needs mu.
func (p *Places) endedNow(place Place) (at time.Time, is bool) {
	l := place.lease()
	if at, is = p.Leases.Ended(l); !is || p.settled[l] || l.Node == p.Node {
		return time.Time{}, false
	}
	return at, true
}

// whileHeld returns a context that also ends when the lease of a place is known to have ended: a node that does not
// answer is not waited for then.
func (p *Places) whileHeld(ctx context.Context, place Place) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if place.Node == p.Node { // which answers
		return ctx, cancel
	}
	go func() {
		for {
			changed := p.Leases.Changed()
			if _, ended := p.Leases.Ended(place.lease()); ended {
				cancel()
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

func (p Place) lease() leases.Lease { return leases.Lease{Node: p.Node, Epoch: p.Epoch} }

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
	if at, ended := p.Leases.Ended(place.lease()); ended {
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
