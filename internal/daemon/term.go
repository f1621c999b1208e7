package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/project/guard"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/supervisor"
)

// term is the controller of the fleet until ctx ends.
func (m *machine) term(ctx context.Context, n *node.Node, db store.Store, l store.Lease) (abandon bool, err error) {
	m.leads.Store(true)
	defer m.leads.Store(false)
	m.Logger.Info("this node is the controller of the fleet now", "node", n.Name(), "epoch", l.Fence().Epoch)
	mine := fenced.New(db, l.Fence())
	end, err := m.lead(ctx, n, mine, l.Fence())
	_, unopened := errors.AsType[*openError](err)
	switch {
	case errors.Is(context.Cause(ctx), election.ErrLost):
		m.Logger.Warn("this node is no longer the controller of the fleet; its agents are stopped", "node", n.Name())
		return false, node.ErrSteppedDown
	case unopened && ctx.Err() == nil && isOfStore(err):
		return false, fmt.Errorf("%w: %w", node.ErrRetry, err)
	case end.kept, unopened && errors.Is(context.Cause(ctx), node.ErrKeeping):
		return true, err
	case end.asked:
		return false, errors.Join(err, n.StopFleet(context.WithoutCancel(ctx), mine, l.Fence().Epoch))
	}
	return false, err
}

// isOfStore reports whether an error may pass, because it says something of the store alone.
func isOfStore(err error) bool {
	return store.Refused(err) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrFenced) ||
		errors.Is(err, context.DeadlineExceeded)
}

// lead runs the controller.
func (m *machine) lead(ctx context.Context, n *node.Node, mine *fenced.Store, fence store.Fence) (ending, error) {
	if loaded := m.load(); loaded.Err == nil {
		m.loaded = loaded
	} else {
		m.Logger.Warn("the files of the project have errors; the fleet runs with what was read before", "error",
			loaded.Err)
	}
	m.exports.move(m.loaded.Tree.OTLP.Listen)
	differs := ""
	if last, ok := n.View().Get(n.LastController()); ok && last.Name != n.Name() &&
		last.HasOther(m.loaded.Config.Revision) {
		differs = last.Name
		m.Logger.Warn("the files of the project here differ from those of the last controller, and count now", "last",
			last.Name)
	}
	lost := make(chan string, 16)
	others := newPeers(n, fence, m.Logger)
	defer others.close()
	places, err := placing.Open(ctx, placing.Options{
		Store: mine, Node: n.Name(), Epoch: n.Epoch, Nodes: n.Nodes, Leases: n.Leases(), Runtime: others.runtime,
		Logger: m.Logger,
		Lost: func(node string, epoch uint64) {
			if now, ok := n.View().Get(node); ok && now.Epoch != epoch {
				return // it has another lease since
			}
			select {
			case lost <- node:
			default: // of so many at once, some are not logged
			}
		},
	})
	if err != nil {
		return ending{}, &openError{err}
	}
	var runtimes []runtime.Runtime
	for _, local := range m.runtimes {
		rt := placing.New(local, places)
		err := rt.Sweep(ctx, func(ctx context.Context, path string) error {
			return agent.Evict(ctx, local, path, supervisor.DefaultShutdown)
		})
		if err != nil {
			return ending{}, &openError{err}
		}
		runtimes = append(runtimes, rt)
	}
	var looking sync.WaitGroup
	defer looking.Wait()
	work, quit := context.WithCancel(context.WithoutCancel(ctx))
	defer quit()
	looking.Go(func() { places.Run(work) })
	end, err := m.control(ctx, controller.Options{
		Store: mine, Runtimes: runtimes, Node: n, Places: places, Lost: lost, Far: others.callsOn,
		Transport: others.transport, DiffersFrom: differs,
	}, func(ctx context.Context, s *api.Server, received *otlp.Receiver) {
		looking.Go(func() { n.Lead(ctx, mine, fence.Epoch) })
		s.ServeForwarded(ctx, func(h http.Handler) {
			if h != nil {
				h = otlp.Accept(received, h)
			}
			n.Mount(h)
		})
	})
	if !errors.Is(context.Cause(ctx), election.ErrLost) {
		if err := places.Settle(context.WithoutCancel(ctx), m.runtimes); err != nil {
			m.Logger.Warn("the next controller does not know at once that the agents have ended here", "error", err)
		}
	}
	return end, err
}

// stopHere ends all agents of this node, whose deadline is over, and returns when none runs. What their shims and
// keepers do not end in time, it ends as the guard does.
func (m *machine) stopHere(ctx context.Context) {
	if m.jobs == nil {
		return // it has never been open
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := m.tryStopHere(ctx)
		if err == nil {
			return
		}
		m.Logger.Error("cannot stop all agents of this node; trying on", "error", err)
		time.Sleep(pause) //nolint:forbidigo // there is nothing to wait for
	}
}

// longAgo is a deadline that is over for all agents, whatever their grace.
const longAgo = deadline.Instant(-1 << 62)

func (m *machine) tryStopHere(ctx context.Context) error {
	agent.CheckDeadline(ctx, m.runtimes)
	at, err := deadline.Now()
	if err != nil {
		return err
	}
	var ending sync.WaitGroup
	var jobs error
	ended := make(chan struct{})
	ending.Go(func() { jobs = m.jobs.End(ctx) })
	ending.Go(func() {
		select {
		case <-m.Killed:
			m.Logger.Info("a second signal: agents of this node that have not ended are killed")
			guard.Expire(m.project, longAgo, m.Logger) // what cannot be killed is waited for below
		case <-ended:
		}
	})
	err = guard.Expire(m.project, at, m.Logger)
	close(ended)
	ending.Wait()
	if err = errors.Join(err, jobs); err != nil {
		return err
	}
	slots, err := agent.ListSlots(ctx, m.runtimes)
	if i := slices.IndexFunc(slots, agent.Slot.Lives); i >= 0 {
		return fmt.Errorf("%s may still run", slots[i].Path) // it was just being started, or its state is not known
	}
	return err
}
