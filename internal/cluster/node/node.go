// Package node makes this machine a node of a fleet: it holds the lease of the node, keeps the deadline of its agents,
// serves the other nodes, and stands for election as the controller.
package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/api/pipe"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/store"
)

// ControllerLease is the name of the lease of the controller.
const ControllerLease = "controller"

// Causes of the end of a term as the controller, and errors of Run.
var (
	// ErrDraining is the cause if the node is being drained.
	ErrDraining = errors.New("the node is being drained")
	// ErrDown is returned when the whole fleet was stopped.
	ErrDown = errors.New("the fleet was stopped")
	// ErrSteppedDown is returned by a Term that has lost the lease of the controller. The node then gives up its own
	// lease, too, once no agent runs on it.
	ErrSteppedDown = errors.New("another node may be the controller now")
	// ErrRetry is wrapped by the error of a Term that could not begin. The node gives up the lease of the controller,
	// and tries again later.
	ErrRetry = errors.New("the controller could not begin")
)

// Options of a Node. All but Standby are required.
type Options struct {
	Name     string
	Info     func() registry.Info // what the others are told; see InfoChanged
	Current  func() *identity.Identity
	Listener net.Listener // for other nodes, without TLS
	Join     http.Handler // for machines that join
	Store    store.Store
	Link     *Link
	TTL      time.Duration // of the leases
	// LeaseFile has the leases while this process runs, and after it was killed. DeadlineFile is that of package
	// deadline.
	LeaseFile, DeadlineFile string
	// Held is called each time that the node has got its lease: agents may be started here.
	Held func()
	// Leave returns when no agent runs on this node. It is called when the deadline of the agents is over, before the
	// node gives up its lease, by which others know that.
	Leave func(ctx context.Context)
	// Standby is called with the reason each time that it is known why this node is not the controller.
	Standby func(why string)
	Logger  *slog.Logger
}

// Node is this machine as a node.
type Node struct {
	o     Options
	view  *registry.View
	until *deadline.Writer
	ended *leases.Tracker // which leases of nodes have

	epoch      atomic.Uint64 // of the lease of this node; 0 while it has none
	sent       atomic.Int64  // the deadline.Instant at which the lease was asked for
	leaving    sync.Mutex    // held while the deadline is written
	left       uint64        // the epoch of the last lease whose agents were ended; guarded by leaving
	leases     leaseFile
	controller *follower
	announced  sync.Once
	news       chan struct{} // holds a token if the others are to be told again
	readied    chan struct{} // closed when ready has returned, and the node is announced
	api        mounted
	shared     atomic.Pointer[http.Handler] // for other nodes
	pipe       *pipe.Listener               // for the clients of this node
}

// Open reads the registry. Run begins.
func Open(ctx context.Context, o Options) (*Node, error) {
	view, err := registry.NewView(ctx, o.Store, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := view.Admit(o.Name, o.Current().KeyHash()); err != nil {
		return nil, err
	}
	until, err := deadline.NewWriter(o.DeadlineFile)
	if err != nil {
		return nil, err
	}
	n := &Node{o: o, view: view, until: until, leases: leaseFile{path: o.LeaseFile}, pipe: pipe.Listen(),
		readied: make(chan struct{}), news: make(chan struct{}, 1)}
	n.ended = leases.New(o.Store, view.All)
	n.api.epoch = &n.epoch
	n.controller, err = newFollower(ctx, o.Store, o.Logger)
	return n, err
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.o.Name }

// Epoch returns the epoch of the lease of this node, and 0 while it has none.
func (n *Node) Epoch() uint64 { return n.epoch.Load() }

// View returns the nodes of the fleet.
func (n *Node) View() *registry.View { return n.view }

// Nodes returns the nodes of the fleet, sorted by name.
func (n *Node) Nodes() []registry.Node {
	all, _ := n.view.All()
	return all
}

// LastController returns the node that is the controller, or was it last, as far as the store has told.
func (n *Node) LastController() string {
	c, _ := n.controller.get()
	return c.Node
}

// Leases knows which leases of nodes have ended since this process began.
func (n *Node) Leases() *leases.Tracker { return n.ended }

// Term is the time in which this node is the controller. l is the lease of the controller. It ends with ctx, whose
// cause is election.ErrLost if others may be the controller by then, and ErrDraining if they should. If abandon is
// true, the next process on this machine goes on with both leases.
type Term func(ctx context.Context, l store.Lease) (abandon bool, err error)

// Run is a node until ctx ends, a term returns by itself, or the fleet is stopped. If the cause of the end of ctx is
// ErrKeeping, the next process on this machine goes on with the leases. ready is called when the lease of
// the node is held for the first time, before any term: from then on agents can be started here.
func (n *Node) Run(ctx context.Context, ready func(context.Context) error, term Term) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	defer func() {
		end()
		<-ended
	}()
	go func() {
		defer close(ended)
		n.serve(serving)
	}()
	saved := n.leases.load()
	isReady := false
	for {
		err := election.Run(ctx, election.Options{
			Store: n.o.Store, Name: registry.LeaseOf(n.o.Name), TTL: n.o.TTL, Resume: saved.Node,
			Asking: n.asking, Renewed: n.renewed, Logger: n.o.Logger,
			Waiting: func(held *store.HeldError) {
				n.o.Logger.Info("waiting for the end of the lease of this node, which an earlier process has had",
					"node", n.o.Name, "until", held.Until)
			},
		}, func(ctx context.Context, l store.Lease) (bool, error) {
			if !isReady {
				if err := ready(ctx); err != nil {
					return false, err
				}
				isReady = true
			}
			if l.Fence() != saved.Node {
				saved.Controller = store.Fence{}
			}
			return n.hold(ctx, l, saved.Controller, term)
		})
		if !errors.Is(err, ErrSteppedDown) {
			return err
		}
		saved = fences{}
	}
}

// hold is what the node does while it holds its lease.
func (n *Node) hold(ctx context.Context, l store.Lease, resume store.Fence, term Term) (abandon bool, err error) {
	n.leases.save(fences{Node: l.Fence()}, n.o.Logger)
	n.o.Held()
	n.epoch.Store(l.Fence().Epoch)
	defer func() {
		n.epoch.Store(0)
		abandon = abandon || keeps(ctx, err)
		if !abandon {
			n.leave(ctx, l.Fence())
		}
	}()
	if err := n.announce(ctx, l.Fence()); err != nil {
		return false, n.stopped(ctx, err)
	}
	n.announced.Do(func() { close(n.readied) })
	defer n.keepAnnounced(ctx, l.Fence())()
	down, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go n.controller.awaitDown(down, func() { cancel(ErrDown) })
	for {
		if self, ok := n.view.Get(n.o.Name); ok && self.Draining {
			n.standby("it is being drained; to end that: coppice node drain " + n.o.Name + " --undo")
		}
		if err := n.awaitUndrained(down); err != nil {
			return false, n.stopped(ctx, err)
		}
		standing, stop := context.WithCancelCause(down)
		go func() { stop(n.awaitDrained(standing)) }()
		err := election.Run(standing, election.Options{
			Store: n.o.Store, Name: ControllerLease, TTL: n.o.TTL, Resume: resume, Logger: n.o.Logger,
		}, func(ctx context.Context, cl store.Lease) (bool, error) {
			n.leases.save(fences{Node: l.Fence(), Controller: cl.Fence()}, n.o.Logger)
			var err error
			if abandon, err = term(ctx, cl); !abandon {
				n.leases.save(fences{Node: l.Fence()}, n.o.Logger)
			}
			return abandon, err
		})
		drained := errors.Is(context.Cause(standing), ErrDraining)
		stop(nil)
		resume = store.Fence{}
		switch {
		case down.Err() != nil || abandon:
			return abandon, n.stopped(ctx, err)
		case errors.Is(err, ErrRetry):
			n.o.Logger.Warn("this node cannot be the controller now; trying again", "error", err)
			if err := sleep(down, retryPause); err != nil {
				return false, n.stopped(ctx, err)
			}
		case !drained || err != nil && !errors.Is(err, ErrDraining):
			return false, n.stopped(ctx, err)
		}
	}
}

// retryPause is the time after a term that could not begin, in which another node may be elected.
const retryPause = 2 * time.Second

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *Node) standby(why string) {
	if n.o.Standby != nil {
		n.o.Standby(why)
	}
}

// stopped returns the error of work that has ended: none if it has because the lease was lost, after which the node
// tries to get it again.
func (n *Node) stopped(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), election.ErrLost) && !errors.Is(err, ErrSteppedDown) {
		return nil
	}
	return err
}

// awaitUndrained waits until the node is not being drained.
func (n *Node) awaitUndrained(ctx context.Context) error { return n.awaitDraining(ctx, false) }

// awaitDrained returns ErrDraining once the node is being drained, registry.ErrRemoved once it was removed, or the
// cause of the end of ctx.
func (n *Node) awaitDrained(ctx context.Context) error {
	if err := n.awaitDraining(ctx, true); err != nil {
		return err
	}
	return ErrDraining
}

func (n *Node) awaitDraining(ctx context.Context, want bool) error {
	for {
		_, changed := n.view.All()
		self, ok := n.view.Get(n.o.Name)
		if !ok {
			return registry.ErrRemoved
		}
		if self.Draining == want {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
