package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// ServeOptions are what Serve needs to know.
type ServeOptions struct {
	Config  string // path of the coppice.toml
	Version string
	Logger  *slog.Logger
	// Signals asks for the end: the first value stops all agents in order, the
	// second kills them.
	Signals <-chan os.Signal
	// Up is called once the controller answers, with the socket it answers on.
	Up func(c *Controller, socket string)
	// Ready is called once every agent has been started, or its start has failed.
	Ready func(*Controller)
}

// Serve is the daemon of a project, from its lock to its end. Its error is a
// config.Errors, a *LockedError, a *sqlite.FileError, or why the tree ended.
func Serve(ctx context.Context, o ServeOptions) (err error) {
	project, err := OpenProject(o.Config)
	if err != nil {
		return err
	}
	tree, err := config.Load(o.Config)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(o.Config)
	if err != nil {
		return err
	}
	lock, err := project.Lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()

	db, err := sqlite.Open(ctx, project.Database())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	runtimes, closeRuntimes, err := openRuntimes(ctx, project, tree, o.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRuntimes()) }()

	socket, err := api.SocketPath(project.Dir)
	if err != nil {
		return err
	}
	listener, err := api.Listen(socket)
	if err != nil {
		return err
	}
	defer listener.Close()

	sum := sha256.Sum256(data)
	c, err := Open(ctx, Options{
		Tree: tree, Store: db, Runtimes: runtimes, Logger: o.Logger, Version: o.Version,
		Config: ConfigInfo{Path: o.Config, Revision: hex.EncodeToString(sum[:6]), LoadedAt: time.Now()},
	})
	if err != nil {
		return err
	}
	serving, quit := context.WithCancel(context.WithoutCancel(ctx))
	var tending sync.WaitGroup
	defer tending.Wait()
	tending.Go(func() { c.tend(serving, lock, listener) })
	served := make(chan error, 1)
	go func() { served <- api.Serve(serving, listener, c, o.Logger) }()
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

	for {
		select {
		case sig := <-o.Signals:
			o.Logger.Info("stopping", "signal", fmt.Sprint(sig))
			sd.SdNotify(false, sd.SdNotifyStopping)
			c.Stop(false)
		case <-ctx.Done():
			c.Stop(false)
			<-c.Ended()
			return c.Err()
		case <-c.Ended():
			return c.Err()
		}
	}
}

// tellReady tells systemd, and who else wants to know, that the fleet has started.
func (c *Controller) tellReady(ctx context.Context, ready func(*Controller)) {
	if c.Started(ctx) != nil {
		return // ended before: that is told by the end
	}
	sd.SdNotify(false, sd.SdNotifyReady)
	if ready != nil {
		ready(c)
	}
}

// watchdog keeps systemd's watchdog quiet while the controller makes
// progress: while the root of the tree answers. A controller that hangs is
// then replaced, and its agents are taken over by the next one.
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
