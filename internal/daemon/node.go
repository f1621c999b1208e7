package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/project/guard"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// serveNode is Serve on a machine that is a node of a fleet. It answers on the socket from the beginning, and runs a
// controller while this node is elected.
func (m *machine) serveNode(ctx context.Context, self *member.Member) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer func() {
		if ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())) {
			err = nil // it was asked to end
		}
	}()
	if m.Once {
		return fmt.Errorf("this machine is node %s of a fleet, whose agents run until they are stopped: use coppice up",
			self.Name())
	}
	if err := m.listen(); err != nil {
		return err
	}
	defer m.listener.Close()
	m.home()
	link := new(node.Link)
	link.Unavailable("this daemon has not reached the store yet")
	local := &localProcesses{logger: m.Logger}
	endFound, err := local.find(m)
	if err != nil {
		return err
	}
	defer endFound()
	front := api.NewFront(local, link, m.Logger)
	answer := func(register func(*api.Server)) {
		here := api.NewServer(local, m.Logger)
		node.HandleEnd(here, func() node.Ending {
			return node.Ending{Node: self.Name(), Controller: m.leads.Load(), Starting: !local.isOpen.Load()}
		}, stop)
		register(here)
		front.Answer(here)
	}
	answer(func(*api.Server) {})
	serving, quit := context.WithCancel(context.WithoutCancel(ctx))
	fronted := make(chan struct{})
	go func() {
		defer close(fronted)
		if err := front.Serve(serving, m.listener); err != nil {
			m.Logger.Error("the socket failed", "error", err)
		}
	}()
	m.exports = newExports(serving, otlp.Forwarder(link, m.Logger), m.Logger)
	m.exports.move(m.loaded.Tree.OTLP.Listen)
	defer func() {
		quit()
		<-fronted
		m.exports.close()
	}()
	go watchdog(serving, func() error {
		if m.leads.Load() {
			return errLeads
		}
		return nil
	})

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", self.Settings().Listen)
	if err != nil {
		return fmt.Errorf("other nodes cannot reach this one: %w", err)
	}
	defer listener.Close()
	var db *etcd.Store
	err = m.untilAnswered(ctx, self, link, func() (err error) {
		db, err = etcd.Open(ctx, self.Location(), m.Logger)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var n *node.Node
	files := newProjectFiles(m.Config, m.loaded.Config.Revision, m.Logger)
	err = m.untilAnswered(ctx, self, link, func() (err error) {
		if err := member.CheckProject(ctx, db, m.loaded.Tree.Root.Name, m.Config); err != nil {
			return err
		}
		if _, err := self.Renew(ctx, db, time.Now()); err != nil {
			return err
		}
		n, err = m.openNode(ctx, self, files, db, listener, link)
		return err
	})
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	defer working.Wait()
	work, quitWork := context.WithCancel(context.WithoutCancel(ctx))
	defer quitWork()
	if m.Web != nil {
		page := m.Web(m.loaded.Tree.Web, db, m.socket, self.Name())
		answer(page.Register)
		working.Go(func() { page.Run(work) })
	}
	working.Go(func() { self.Run(work, db, m.Logger) })
	go files.run(work, m.loaded.Watch, n.InfoChanged) // which may hang with the file system
	end := func() error { return nil }
	defer func() { err = errors.Join(err, end()) }()
	err = n.Run(ctx, func(ctx context.Context) (err error) {
		end = m.guard()
		close, err := m.open(ctx) // the deadline is there now
		if err != nil {
			return err
		}
		local.open(m)
		endFound()
		unshare, unguard := m.share(n, db), end
		end = func() error {
			unshare()
			return errors.Join(close(), unguard())
		}
		return nil
	}, func(ctx context.Context, l store.Lease) (bool, error) { return m.term(ctx, n, db, l) })
	if errors.Is(err, node.ErrDown) {
		return nil
	}
	return err
}

// openNode makes this machine ready to be a node.
func (m *machine) openNode(
	ctx context.Context, self *member.Member, files *projectFiles, db store.Store, listener net.Listener,
	link *node.Link,
) (*node.Node, error) {
	var n *node.Node
	n, err := node.Open(ctx, node.Options{
		Name: self.Name(), Info: func() registry.Info { return self.Info(m.Version, files.Revision()) },
		Current: self.Current, Listener: listener,
		Join: self.JoinHandler(db, m.Logger), Store: db, Link: link, TTL: election.DefaultTTL,
		LeaseFile: filepath.Join(m.project.Node(), "leases.json"), DeadlineFile: m.project.DeadlineFile(),
		Standby: func(why string) {
			sd.SdNotify(false, sd.SdNotifyReady)
			if m.Standby != nil {
				m.Standby(fmt.Sprintf("node %s stands by, process %d: %s", self.Name(), os.Getpid(), why))
			}
		},
		Held: func() { m.emptied.Store(false) },
		Leave: func(ctx context.Context) {
			m.stopHere(ctx)
			m.emptied.Store(true)
		},
		Logger: m.Logger,
	})
	return n, err
}

// guard has a process end what the agents of this machine have started, if their deadline comes when this daemon and
// their shims are dead. The caller must call end.
func (m *machine) guard() (end func() error) {
	k := guard.Keep(m.project, m.Logger)
	return func() error {
		if m.emptied.Load() {
			return k.End()
		}
		k.Close() // the agents go on, and the next daemon finds it
		return nil
	}
}

// home notes in all agents where the project is on this machine: it may be in another directory on others.
func (m *machine) home() {
	m.loaded.Tree.SetHome(m.project.Dir)
	load := m.load
	m.load = func() reconcile.Loaded {
		loaded := load()
		if loaded.Tree != nil {
			loaded.Tree.SetHome(m.project.Dir)
		}
		return loaded
	}
}

// errLeads says that the controller tells whether this daemon is alive.
var errLeads = errors.New("the controller runs")

// storePause is the time between two attempts to open the store.
const storePause = time.Second

// untilAnswered calls do, again as long as the store of the fleet does not answer.
func (m *machine) untilAnswered(ctx context.Context, self *member.Member, link *node.Link, do func() error) error {
	for last := ""; ; {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown):
			return err
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
			return context.Cause(ctx)
		}
	}
}
