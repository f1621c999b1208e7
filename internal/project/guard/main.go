// Package guard ends what a machine of a fleet still runs when the deadline of its node has come, if neither the daemon
// nor the shims do it: by then other nodes start the agents again. A guard is a process next to the daemon, one for
// each project. It sleeps until the deadline, and outlives the daemon and the shims.
//
// Shims and keepers end their agents themselves, and have their grace periods for that. The guard kills what is left of
// those that were killed, and what the others have not ended in time: see shim.Expire and pane.Expire. It does not ask
// whether a daemon runs, because that may hang. When all is done it ends, unless there is a daemon, which may get a new
// lease. It also ends when there is no deadline any longer.
//
// A daemon whose node leaves the fleet ends its agents by the same function, Expire.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

// Arg is the first argument of a program that must call Main with the rest.
const Arg = "guard"

// readyFD is the descriptor in which a guard says which process guards the project: a proc.Identity as JSON.
const readyFD = 3

// gcPercent makes the first collection start at a heap of about 2 MB, which a guard at rest stays below.
const gcPercent = 50

// Main runs the guard of a project, whose directory and state directory are the arguments.
func Main(args []string) int {
	if len(args) != 2 || !filepath.IsAbs(args[0]) || !filepath.IsAbs(args[1]) {
		fmt.Fprintln(os.Stderr, "coppice guard: started by coppice itself, not by people")
		return 2
	}
	debug.SetGCPercent(gcPercent)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(project.Project{Dir: args[0], State: args[1]}, logger); err != nil {
		logger.Error("the guard has failed", "pid", os.Getpid(), "error", err)
		return 1
	}
	return 0
}

// run guards a project unless another process does.
func run(p project.Project, logger *slog.Logger) error {
	syscall.CloseOnExec(readyFD)
	ready := os.NewFile(readyFD, "ready")
	defer ready.Close()
	lock, holder, err := take(p)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(ready).Encode(holder); err != nil {
		logger.Warn("the daemon that has started the guard has ended", "error", err)
	}
	ready.Close()
	if lock == nil {
		return nil
	}
	defer lock.Close()
	guard(p, logger)
	return nil
}

// guard returns when nothing is left to guard.
func guard(p project.Project, logger *slog.Logger) {
	w := deadline.NewWaiter(p.DeadlineFile())
	for {
		debug.FreeOSMemory()
		at, why := w.Await(context.Background())
		switch {
		case errors.Is(why, deadline.ErrNone):
			return
		case errors.Is(why, runtime.ErrDeadline):
			if err := Expire(p, at, logger); err != nil {
				logger.Error("cannot end all agents at the deadline of the node", "error", err)
			}
		}
		if _, locked := p.Locked(); !locked {
			return // the next daemon starts another guard
		}
	}
}

// Expire ends what runs when the deadline has come, and returns when nothing does, at the latest after the grace
// periods of all agents.
func Expire(p project.Project, at deadline.Instant, logger *slog.Logger) error {
	var errs [3]error
	var wg sync.WaitGroup
	for i, dir := range []string{p.Slots(), p.Jobs()} {
		wg.Go(func() { errs[i] = shim.Expire(shim.Options{Dir: dir, Logger: logger}, at) })
	}
	wg.Go(func() { errs[2] = pane.Expire(p.Tmux(), at) })
	wg.Wait()
	return errors.Join(errs[:]...)
}
