package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
)

const (
	logName      = "guard.log" // in the state directory: errors of guards
	readyTimeout = 10 * time.Second

	firstPause = time.Second // from the end of a guard to the next one, doubling while none starts
	lastPause  = time.Minute
)

// Keeper has a project guarded.
type Keeper struct {
	project project.Project
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu    sync.Mutex
	guard proc.Identity // the zero value if there is none
}

// Keep has a project guarded, which has a deadline. It finds the guard that an earlier daemon has started, or starts
// one, also later each time that it has ended. Without a guard the daemon works on.
func Keep(p project.Project, logger *slog.Logger) *Keeper {
	k := &Keeper{project: p, log: logger}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	err := k.start()
	if !errors.Is(err, errors.ErrUnsupported) {
		k.working.Go(func() { k.keep(err) })
	}
	return k
}

// keep starts a guard when the last one has ended, until ctx ends. err is that of the last start.
func (k *Keeper) keep(err error) {
	for last, pause := "", firstPause; ; err = k.start() {
		if err == nil {
			last, pause = "", firstPause
			k.current().AwaitDeath(k.ctx)
		} else if err.Error() != last {
			last = err.Error()
			k.log.Error("there is no guard: what agents have started goes on when the lease of this node ends, if the "+
				"daemon and the shims were killed by then", "error", err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-k.ctx.Done():
			return
		}
	}
}

func (k *Keeper) current() proc.Identity {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.guard
}

// Close leaves the guard alone.
func (k *Keeper) Close() {
	k.cancel()
	k.working.Wait()
}

// End ends the guard: no agent of the project runs.
func (k *Keeper) End() error {
	k.Close()
	if k.current() == (proc.Identity{}) {
		return nil
	}
	return end(k.current())
}

// start starts a process that is the guard, or ends because there is one.
func (k *Keeper) start() error {
	fail := func(err error) error { return fmt.Errorf("starting a guard: %w", err) }
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fail(err)
	}
	defer null.Close()
	name := filepath.Join(k.project.State, logName)
	log, err := private.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer ours.Close()
	// Not the name of the program: the process is called exe, so killing all that are called coppice does not end it.
	argv := []string{"coppice", Arg, k.project.Dir, k.project.State}
	child, err := proc.Detach("/proc/self/exe", argv, shim.Environ(), k.project.State,
		[]*os.File{null, null, log, theirs})
	theirs.Close()
	if err != nil {
		return fail(err)
	}
	k.working.Go(func() { // reaps it
		select {
		case <-child.Done():
		case <-k.ctx.Done():
			child.Release()
			<-child.Done()
		}
	})
	ours.SetReadDeadline(time.Now().Add(readyTimeout))
	var guard proc.Identity
	if err := json.NewDecoder(io.LimitReader(ours, maxHolder)).Decode(&guard); err != nil {
		return fail(fmt.Errorf("process %d does not answer (%w); %s may say more", child.PID, err, name))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.guard = guard
	return nil
}
