package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/httpserver"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/reconcile"
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
	// Once, OnEvent and Output: see Options. A slow OnEvent or Output delays the end of Serve; a
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
	// Web returns the web page for the settings of the project; nil for no page.
	Web func(w spec.Web, kept store.Store, socket string) Face
	// Up is called once the controller answers, with the socket it answers on.
	Up func(c *Controller, socket string)
	// Ready is called once every agent has been started, or its start has failed.
	Ready func(*Controller)
}

// Face is served by the daemon, but calls it like any other client.
type Face interface {
	// Register adds its routes to those of the daemon.
	Register(*api.Server)
	// Run serves it until ctx ends.
	Run(ctx context.Context)
}

// Serve runs the daemon of a project, from taking its lock to the end of its tree. The end of ctx
// stops all agents in order; Controller.Stop can kill them. Its error is a config.Errors, a
// *LockedError, a *sqlite.FileError, or the error that ended the tree.
func Serve(ctx context.Context, o ServeOptions) (err error) {
	files := load.New(o.Logger, o.Trace).In(o.Sandbox)
	if o.Once { // nothing of an earlier run goes on, such as messages that were not handled
		files.Programs.Fresh = rand.Text()
	}
	defer func() { err = errors.Join(err, files.Programs.Close()) }() // after the last event
	load := func() reconcile.Loaded { return files.Load(o.Config) }
	loaded := load()
	if loaded.Err != nil {
		return loaded.Err
	}
	tree := loaded.Tree
	p, err := project.Open(o.Config)
	if err != nil {
		return err
	}
	if o.Sandbox != nil {
		p.State = o.Sandbox.State()
	}
	p = p.WithPersistence(tree.Persistence)
	lock, err := p.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	p.RemoveExitRecord()
	defer func() { p.WriteExitRecord(err) }()

	db, err := p.ServeStore(ctx, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	onEvent := files.Programs.Traced(o.OnEvent)
	if onEvent != nil { // a slow terminal must not hold up the log
		var drain func()
		onEvent, drain = supervisor.Buffered(onEvent)
		defer drain()
	}
	runtimes, closeRuntimes, err := p.OpenRuntimes(ctx, tree, o.Logger, o.Output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRuntimes()) }()

	jobs, err := job.Open(job.Options{Dir: p.Jobs(), Deadline: p.Deadline(), Logger: o.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.Close()) }()

	socket, err := endpoint.Path(p.Dir)
	if err != nil {
		return err
	}
	listener, err := endpoint.Listen(socket)
	if err != nil {
		return err
	}
	defer listener.Close()

	measured := tree.Metrics
	if o.Sandbox != nil { // which does not take the ports of the project
		measured = spec.Metrics{}
	}
	c, err := Open(ctx, Options{
		Tree: tree, Store: db, Runtimes: runtimes, Jobs: jobs, Logger: o.Logger, Version: o.Version,
		Once: o.Once, OnEvent: onEvent, Work: p.RunRequests(), Output: o.Output, Socket: socket,
		Admit: listener.Admit, Metrics: measured,
		Config: loaded.Config, Load: load, Traces: o.Sandbox == nil,
	})
	if err != nil {
		return err
	}
	serving, quit := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { (&repairs{Controller: c, lock: lock, listener: listener}).run(serving) })
	if listen := tree.OTLP.Listen; listen != "" && o.Sandbox == nil {
		receiver := httpserver.Server{
			Name: "the receiver of [otlp]", Handler: otlp.New(c.agents.Caller, c.calls.Exported), Logger: o.Logger,
			MaxConns: 1024, // of agents, which keep them open
		}
		working.Go(func() { receiver.Run(serving, listen) })
	}
	if c.metrics != nil {
		working.Go(func() { c.metrics.Serve(serving, measured.Listen) })
	}
	if !o.Once && o.Sandbox == nil { // a person has started what runs once
		c.background.run(c.runNotify)
		c.background.run(c.deadman.Run)
	}
	working.Go(func() { c.health.RunWrapperProbes(serving, healthFleet{c}.interval) })
	if !o.Once {
		go c.reloader.Run(serving, loaded.Watch, o.Hurry) // which may hang with the file system
	}
	server := c.server()
	if o.Web != nil {
		page := o.Web(tree.Web, db, socket)
		page.Register(server)
		working.Go(func() { page.Run(serving) })
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving, listener) }()
	defer func() {
		quit()
		if e := <-served; e != nil {
			o.Logger.Error("the socket failed", "error", e)
		}
	}()
	if o.Up != nil {
		o.Up(c, socket)
	}
	go c.tellReady(serving, o.Ready)
	go c.watchdog(serving)

	select {
	case <-ctx.Done():
	case <-c.Asked():
	case <-c.Ended():
		return c.Err()
	}
	sd.SdNotify(false, sd.SdNotifyStopping)
	select {
	case <-ctx.Done():
		o.Logger.Info("stopping", "because", context.Cause(ctx))
		c.Stop(false)
		<-c.Ended()
	case <-c.Ended():
	}
	return c.Err()
}

// tellReady calls ready and notifies systemd when the fleet has started.
func (c *Controller) tellReady(ctx context.Context, ready func(*Controller)) {
	if c.Started(ctx) != nil {
		return // it has ended before
	}
	c.metrics.Started()
	sd.SdNotify(false, sd.SdNotifyReady)
	if ready != nil {
		ready(c)
	}
	debug.FreeOSMemory() // a daemon at rest makes too little garbage to return soon what the starts have used
}

// watchdog notifies systemd's watchdog while the root of the tree answers. systemd replaces a
// controller that hangs, and the next one adopts its agents.
func (c *Controller) watchdog(ctx context.Context) {
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := c.root.Count(); err == nil {
				sd.SdNotify(false, sd.SdNotifyWatchdog)
			}
		case <-ctx.Done():
			return
		}
	}
}
