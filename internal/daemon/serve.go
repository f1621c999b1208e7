// Package daemon is the process that runs a project on a machine: it holds the lock of the project, opens its store and
// runtimes, answers on its socket, and runs a controller, in a fleet while this node is elected.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/cluster/node"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// ServeOptions are the settings of Serve.
type ServeOptions struct {
	Config  string // path of the coppice.toml or grove.toml
	Version string
	Logger  *slog.Logger
	// Once, OnEvent and Output: see controller.Options. A slow OnEvent or Output delays the end of Serve; a
	// slow Output also blocks the agents that write.
	Once    bool
	OnEvent func(supervisor.Event)
	Output  func(path string, incarnation uint64, line proc.Line)
	// Trace receives events of Sage programs as NDJSON, if it is not nil.
	Trace *os.File
	// Sandbox replaces what agents call, and keeps the state; nil for the project as it is.
	Sandbox load.Sandbox
	// Hurry requests that the files are read again; it may be nil. With Once they are read only once.
	Hurry <-chan struct{}
	// Killed is closed to kill the agents of a node that are being stopped without a controller here. Those of a
	// controller are killed by its Stop.
	Killed <-chan struct{}
	// Web returns the web page for the settings of the project; nil for no page. node is the name of this machine in
	// a fleet.
	Web func(w spec.Web, kept store.Store, socket, node string) Face
	// Up is called once the controller answers, with the socket it answers on.
	Up func(c *controller.Controller, socket string)
	// Ready is called once every agent has been started, or its start has failed.
	Ready func(*controller.Controller)
	// Standby is called in a fleet each time that it is known why this node is not the controller, and Waiting while
	// the daemon cannot work because the store of the fleet does not answer. They may be nil.
	Standby, Waiting func(message string)
}

// Face is served by the daemon, but calls it like any other client.
type Face interface {
	// Register adds its routes to those of the daemon.
	Register(*api.Server)
	// Run serves it until ctx ends.
	Run(ctx context.Context)
}

// Serve runs the daemon of a project, from taking its lock to the end of its tree. The end of ctx
// stops all agents in order; Stop of the Controller can kill them. Its error is a config.Errors, a
// *LockedError, a *sqlite.FileError, or the error that ended the tree.
func Serve(ctx context.Context, o ServeOptions) (err error) {
	files := load.New(o.Logger, o.Trace).In(o.Sandbox)
	if o.Once { // nothing of an earlier run goes on, such as messages that were not handled
		files.Programs.Fresh = rand.Text()
	}
	defer func() { err = errors.Join(err, files.Programs.Close()) }() // after the last event
	m := &machine{ServeOptions: o, load: func() reconcile.Loaded { return files.Load(o.Config) }}
	m.loaded = m.load()
	if m.loaded.Err != nil {
		return m.loaded.Err
	}
	p, err := project.Open(o.Config)
	if err != nil {
		return err
	}
	if o.Sandbox != nil {
		p.State = o.Sandbox.State()
	}
	m.project = p.WithPersistence(m.loaded.Tree.Persistence)
	if m.lock, err = m.project.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.lock.Release()) }()
	m.project.RemoveExitRecord()
	defer func() { m.project.WriteExitRecord(err) }()
	if m.OnEvent = files.Programs.Traced(o.OnEvent); m.OnEvent != nil { // a slow terminal must not hold up the log
		var drain func()
		m.OnEvent, drain = supervisor.Buffered(m.OnEvent)
		defer drain()
	}
	if o.Sandbox == nil {
		switch fleet, err := member.Load(m.project.Node()); {
		case err == nil:
			return m.serveNode(ctx, fleet)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if err := m.leaveFleet(); err != nil {
		return err
	}
	db, err := m.project.ServeStore(ctx, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	end, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := m.listen(); err != nil {
		return err
	}
	defer m.listener.Close()
	serve := func(ctx context.Context, s *api.Server, received *otlp.Receiver) {
		if m.Sandbox == nil { // which does not take the ports of the project
			own := newExports(ctx, received, o.Logger)
			defer own.close()
			own.move(m.loaded.Tree.OTLP.Listen)
		}
		if err := s.Serve(ctx, m.listener); err != nil {
			o.Logger.Error("the socket failed", "error", err)
		}
	}
	_, err = m.control(ctx, controller.Options{Store: db, Runtimes: m.runtimes}, serve)
	return err
}

// leaveFleet lifts the deadline of a machine that is no longer a node of a fleet.
func (m *machine) leaveFleet() error {
	if m.project.Deadline() == "" {
		return nil
	}
	until, err := deadline.NewWriter(m.project.DeadlineFile())
	if err == nil {
		err = until.Lift()
	}
	return err
}

// machine has what a daemon needs of its machine: the project with its lock, the runtimes and the socket.
type machine struct {
	ServeOptions
	load     func() reconcile.Loaded
	loaded   reconcile.Loaded // what was read last without an error
	project  project.Project
	lock     *project.Lock
	runtimes []runtime.Runtime
	jobs     *job.Runner
	socket   string
	listener *endpoint.Listener
	exports  *exports    // what command lines export on this node; only in a fleet
	leads    atomic.Bool // a controller runs; only in a fleet
	emptied  atomic.Bool // no agent runs on this node since it has given up its last lease
}

// open opens what runs agents and orders. The caller must call end.
func (m *machine) open(ctx context.Context) (end func() error, err error) {
	runtimes, closeRuntimes, err := m.project.OpenRuntimes(ctx, m.loaded.Tree, m.Logger, m.Output)
	if err != nil {
		return nil, err
	}
	jobs, err := job.Open(job.Options{Dir: m.project.Jobs(), Deadline: m.project.Deadline(), Logger: m.Logger})
	if err != nil {
		return nil, errors.Join(err, closeRuntimes())
	}
	m.runtimes, m.jobs = runtimes, jobs
	return func() error { return errors.Join(jobs.Close(), closeRuntimes()) }, nil
}

// listen creates the socket.
func (m *machine) listen() (err error) {
	if m.socket, err = endpoint.Path(m.project.Dir); err == nil {
		m.listener, err = endpoint.Listen(m.socket)
	}
	return err
}

// ending says why a controller has ended, unless its tree has failed.
type ending struct {
	asked bool // by a person, to end the daemon
	kept  bool // the agents go on
}

// openError reports that a controller could not be opened.
type openError struct{ error }

func (e *openError) Unwrap() error { return e.error }

// control runs a controller with the store and the runtimes in o, from its opening to the end of its tree. The end of
// ctx stops all agents in order, or leaves them running if its cause is election.ErrLost or node.ErrKeeping. serve
// answers requests until its context ends, and passes what command lines export to the receiver.
func (m *machine) control(
	ctx context.Context, o controller.Options, serve func(context.Context, *api.Server, *otlp.Receiver),
) (end ending, err error) {
	tree := m.loaded.Tree
	o.Tree, o.Config, o.Load, o.Jobs, o.Logger, o.Version = tree, m.loaded.Config, m.load, m.jobs, m.Logger, m.Version
	o.Once, o.OnEvent, o.Output, o.Work = m.Once, m.OnEvent, m.Output, m.project.RunRequests()
	o.Sandbox, o.Socket, o.Admit = m.Sandbox != nil, m.socket, m.listener.Admit
	o.Lock, o.Restored, o.Watch, o.Hurry = m.lock, m.listener.Restored(), m.loaded.Watch, m.Hurry
	c, err := controller.Open(ctx, o)
	if err != nil {
		return end, &openError{err}
	}
	serving, quit := context.WithCancelCause(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	defer working.Wait()
	defer func() {
		if end.asked || o.Node == nil {
			quit(api.ErrStopping)
		} else {
			quit(api.ErrNoController) // soon there is another one
		}
	}()
	working.Go(func() { c.Run(serving) })
	server := c.Server()
	if m.Web != nil && o.Node == nil { // in a fleet each node serves the page
		page := m.Web(tree.Web, o.Store, m.socket, "")
		page.Register(server)
		working.Go(func() { page.Run(serving) })
	}
	working.Go(func() { serve(serving, server, c.Exports()) })
	if m.Up != nil {
		m.Up(c, m.socket)
	}
	go func() {
		if c.Started(serving) == nil { // or it has ended before
			m.ready(c)
		}
	}()
	go watchdog(serving, c.Alive)
	select {
	case <-ctx.Done():
	case <-c.Asked():
	case <-c.Ended():
	}
	if cause := context.Cause(ctx); !errors.Is(cause, election.ErrLost) && !errors.Is(cause, node.ErrDraining) {
		sd.SdNotify(false, sd.SdNotifyStopping)
	}
	end.asked = c.End(ctx)
	end.kept = c.IsDetached()
	return end, c.Err()
}

// ready calls Ready and notifies systemd when the fleet has started.
func (m *machine) ready(c *controller.Controller) {
	sd.SdNotify(false, sd.SdNotifyReady)
	if m.Ready != nil {
		m.Ready(c)
	}
	debug.FreeOSMemory() // a daemon at rest makes too little garbage to return soon what the starts have used
}

// watchdog notifies systemd's watchdog while alive returns no error. systemd replaces a daemon that
// hangs, and the next one adopts its agents.
func watchdog(ctx context.Context, alive func() error) {
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if alive() == nil {
				sd.SdNotify(false, sd.SdNotifyWatchdog)
			}
		case <-ctx.Done():
			return
		}
	}
}
