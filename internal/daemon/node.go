package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/access"
	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// serveNode is Serve on a machine that is a node of a fleet. It answers on the socket from the beginning, and runs a
// controller while this node is elected.
func (m *machine) serveNode(ctx context.Context, self *member.Member) (err error) {
	if m.Once {
		return fmt.Errorf("this machine is node %s of a fleet, whose agents run until they are stopped: use coppice up",
			self.Name())
	}
	if err := m.listen(); err != nil {
		return err
	}
	defer m.listener.Close()
	link := new(node.Link)
	link.Unavailable("this daemon has not reached the store yet")
	local := &localProcesses{logger: m.Logger}
	front := api.NewFront(local, link, m.Logger)
	serving, quit := context.WithCancel(context.WithoutCancel(ctx))
	fronted := make(chan struct{})
	go func() {
		defer close(fronted)
		if err := front.Serve(serving, m.listener); err != nil {
			m.Logger.Error("the socket failed", "error", err)
		}
	}()
	defer func() {
		quit()
		<-fronted
	}()
	go watchdog(serving, func() error {
		if m.leads.Load() {
			return errLeads
		}
		return nil
	})

	db, err := m.openFleetStore(ctx, self, link)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", self.Settings().Listen)
	if err != nil {
		return fmt.Errorf("other nodes cannot reach this one: %w", err)
	}
	defer listener.Close()
	if err := m.checkProject(ctx, db); err != nil {
		return err
	}
	if _, err := self.Renew(ctx, db, time.Now()); err != nil {
		return err
	}
	working := newBackground()
	defer working.end()
	if m.Web != nil {
		page := m.Web(m.loaded.Tree.Web, db, m.socket, self.Name())
		here := api.NewServer(local, m.Logger)
		page.Register(here)
		front.Answer(here)
		working.run(page.Run)
	}
	working.run(func(ctx context.Context) { self.Run(ctx, db, m.Logger) })
	n, err := node.Open(ctx, node.Options{
		Name: self.Name(), Info: self.Info(m.Version), Current: self.Current, Listener: listener,
		Join: self.JoinHandler(db, m.Logger), Store: db, Link: link, TTL: election.DefaultTTL,
		LeaseFile: filepath.Join(m.project.Node(), "leases.json"), DeadlineFile: m.project.DeadlineFile(),
		Standby: func(why string) {
			sd.SdNotify(false, sd.SdNotifyReady)
			if m.Standby != nil {
				m.Standby(fmt.Sprintf("node %s stands by, process %d: %s", self.Name(), os.Getpid(), why))
			}
		},
		Logger: m.Logger,
	})
	if err != nil {
		return err
	}
	end := func() error { return nil }
	defer func() { err = errors.Join(err, end()) }()
	err = n.Run(ctx, func(ctx context.Context) (err error) {
		end, err = m.open(ctx) // the deadline is there now
		if err == nil {
			local.known(m)
		}
		return err
	}, func(ctx context.Context, l store.Lease) (bool, error) { return m.term(ctx, n, db, l) })
	if errors.Is(err, node.ErrDown) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// projectKey is the key of the record of the project that the fleet runs.
const projectKey = "cluster/project"

// fleetProject is that record.
type fleetProject struct {
	Name string `json:"name"` // of the root of the tree, with which the paths of all agents begin
	By   string `json:"by"`   // random
}

// checkProject returns an error if the file of this machine is that of another project than the fleet's, which is the
// one that was there first.
func (m *machine) checkProject(ctx context.Context, db store.Store) error {
	own := m.loaded.Tree.Root.Name
	value, err := json.Marshal(fleetProject{own, rand.Text()})
	if err != nil {
		return err
	}
	r, _, err := record.Create(ctx, db, projectKey, value)
	if err != nil {
		return fmt.Errorf("reading which project the fleet runs: %w", err)
	}
	var fleet fleetProject
	if err := json.Unmarshal(r.Value, &fleet); err != nil {
		return fmt.Errorf("the record of the project of the fleet, %s in the store, is damaged: %w", projectKey, err)
	}
	if fleet.Name != own {
		return fmt.Errorf("the fleet runs project %s, and %s is project %s; if they are the same, give them the same "+
			"name: [project] name = %q", spec.Quote(fleet.Name), m.Config, spec.Quote(own), fleet.Name)
	}
	return nil
}

// errLeads says that the controller tells whether this daemon is alive.
var errLeads = errors.New("the controller runs")

// storePause is the time between two attempts to open the store.
const storePause = time.Second

// openFleetStore opens the store, as soon as etcd answers.
func (m *machine) openFleetStore(ctx context.Context, self *member.Member, link *node.Link) (*etcd.Store, error) {
	for last := ""; ; {
		db, err := etcd.Open(ctx, self.Location(), m.Logger)
		switch {
		case err == nil:
			return db, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, store.ErrUnavailable):
			return nil, err
		}
		if err.Error() != last {
			last = err.Error()
			m.Logger.Warn("waiting for the store of the fleet", "error", err)
			if m.Waiting != nil {
				m.Waiting(fmt.Sprintf("node %s, process %d, waits for the store of the fleet: %v", self.Name(),
					os.Getpid(), err))
			}
		}
		link.Unavailable(last)
		select {
		case <-time.After(storePause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// term is the controller of the fleet until ctx ends.
func (m *machine) term(ctx context.Context, n *node.Node, db store.Store, l store.Lease) (abandon bool, err error) {
	m.leads.Store(true)
	defer m.leads.Store(false)
	m.Logger.Info("this node is the controller of the fleet now", "node", n.Name(), "epoch", l.Fence().Epoch)
	mine := fenced.New(db, l.Fence())
	end, err := m.lead(ctx, n, mine, l.Fence().Epoch)
	_, unopened := errors.AsType[*openError](err)
	switch {
	case errors.Is(context.Cause(ctx), election.ErrLost):
		m.Logger.Warn("this node is no longer the controller of the fleet; its agents are stopped", "node", n.Name())
		m.stopHere(ctx, n)
		return false, node.ErrSteppedDown
	case unopened && ctx.Err() == nil && isOfStore(err):
		return false, fmt.Errorf("%w: %w", node.ErrRetry, err)
	case end.asked && end.kept:
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
func (m *machine) lead(ctx context.Context, n *node.Node, mine *fenced.Store, epoch uint64) (ending, error) {
	if loaded := m.load(); loaded.Err == nil {
		m.loaded = loaded
	} else {
		m.Logger.Warn("the files of the project have errors; the fleet runs with what was read before", "error",
			loaded.Err)
	}
	lost := make(chan string, 16)
	places, err := placing.Open(ctx, placing.Options{
		Store: mine, Node: n.Name(), Epoch: n.Epoch, Logger: m.Logger, Lost: func(node string) { lost <- node },
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
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go places.Run(looking)
	end, err := m.control(ctx, Options{Store: mine, Runtimes: runtimes, Node: n, Lost: lost},
		func(ctx context.Context, s *api.Server) {
			if err := n.Lead(ctx, mine, epoch); err != nil {
				m.Logger.Error("the other nodes are not told that this one is the controller", "error", err)
			}
			s.ServeForwarded(ctx, n.Mount)
		})
	if !errors.Is(context.Cause(ctx), election.ErrLost) {
		if err := places.Settle(context.WithoutCancel(ctx), m.runtimes); err != nil {
			m.Logger.Warn("the next controller does not know at once that the agents have ended here", "error", err)
		}
	}
	return end, err
}

// followLost logs the loss of nodes, until ctx ends.
func (c *Controller) followLost(ctx context.Context) {
	for {
		select {
		case name := <-c.opts.Lost:
			c.log.Append(event.Event{
				Type: event.NodeLost, Actor: "controller",
				Message: fmt.Sprintf("node %s is lost: its lease has ended; its agents are started elsewhere when "+
					"they have had time to stop", name),
			}.With(map[string]any{"node": name}))
		case <-ctx.Done():
			return
		}
	}
}

// stopHere stops all agents of this node, and returns when none runs any more.
func (m *machine) stopHere(ctx context.Context, n *node.Node) {
	ctx = context.WithoutCancel(ctx) // until it is done, others must not have the lease of this node
	if err := n.Expire(); err != nil {
		m.Logger.Error("agents could still be started here", "error", err)
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := agent.StopAll(ctx, m.runtimes)
		if err == nil {
			err = m.jobs.End(ctx)
		}
		if err == nil {
			return
		}
		m.Logger.Error("cannot stop all agents of this node; trying on", "error", err)
		time.Sleep(pause) //nolint:forbidigo // there is nothing to wait for
	}
}

// localProcesses tells what the processes of this node belong to. It is the api.Access of what the node answers itself,
// which is for people.
type localProcesses struct {
	logger *slog.Logger
	access atomic.Pointer[access.Access]
}

// Caller implements api.Access: only the controller knows tokens.
func (l *localProcesses) Caller(context.Context, string) (token.Caller, error) {
	return token.Caller{}, fmt.Errorf("%w: this is for people", api.ErrUnauthorized)
}

// Denied implements api.Access.
func (l *localProcesses) Denied(who token.Caller, pid int, request string) {
	l.logger.Warn("an agent was refused what only people can do", "path", who.Path, "pid", pid, "request", request)
}

// known begins to tell, once the runtimes are open.
func (l *localProcesses) known(m *machine) {
	all := make(map[string]runtime.Runtime)
	for _, rt := range m.runtimes {
		all[rt.Kind()] = rt
	}
	l.access.Store(access.New(access.Options{
		Runtimes: all, Jobs: m.jobs, Socket: m.socket,
		Has:  func(string) bool { return true }, // an agent that says so has fewer rights than a person
		Last: func(string) uint64 { return 0 },  // the controller knows
	}))
}

var errNotOpen = errors.New("the daemon is starting")

// Owner implements api.Processes.
func (l *localProcesses) Owner(pid int) (*token.Caller, error) {
	if a := l.access.Load(); a != nil {
		return a.Owner(pid)
	}
	return nil, errNotOpen
}

// RunOf implements api.Processes.
func (l *localProcesses) RunOf(pid int) string {
	if a := l.access.Load(); a != nil {
		return a.RunOf(pid)
	}
	return ""
}
