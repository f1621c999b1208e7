package pane

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// agent is the part of the StateFile that the keeper knows.
type agent struct {
	Version     int           `json:"version"`
	Incarnation uint64        `json:"incarnation"`
	Agent       proc.Identity `json:"agent"`
	Stop        int           `json:"stop"`
	Grace       time.Duration `json:"grace"`
	Asked       proc.Asked    `json:"asked"`
}

// expiry is the content of the ExpiredFile.
type expiry struct {
	Version     int    `json:"version"`
	Incarnation uint64 `json:"incarnation"`
	Why         string `json:"why"`
}

// Expired returns why the keeper has stopped an incarnation, which wraps runtime.ErrDeadline; nil if it has not.
func Expired(dir string, incarnation uint64) error {
	var e expiry
	err := wire.ReadFile(filepath.Join(dir, ExpiredFile), &e, &e.Version)
	switch {
	case err != nil || e.Incarnation != incarnation:
		return nil
	case e.Why == "":
		return runtime.ErrDeadline
	}
	return &expiredError{fmt.Sprintf("%.500s", e.Why)}
}

// expiredError is an ErrDeadline with the text that the keeper has written down.
type expiredError struct{ why string }

func (e *expiredError) Error() string { return e.why }
func (e *expiredError) Unwrap() error { return runtime.ErrDeadline }

// guard ends the agent of an incarnation at the deadline of the node. It knows no deadline before watch.
type guard struct {
	dir string // of the slot
	at  string // where its files are; empty in a process whose working directory it is
	run uint64

	sweeper *proc.Sweeper

	mu      sync.Mutex
	watcher *deadline.Watcher
}

// watch replaces the file with the deadline. If that is the file already, it is read again.
func (g *guard) watch(file string) error {
	if err := deadline.CheckPath(file); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watcher.Path() == file {
		g.watcher.Check() // its result is for starts
		return nil
	}
	g.watcher.Close()
	g.watcher = deadline.Watch(file, g.expire)
	return nil
}

// agent returns the agent; nil if it was not started yet, or another one after it.
func (g *guard) agent() (*agent, error) {
	a := new(agent)
	err := wire.ReadFile(filepath.Join(g.at, StateFile), a, &a.Version)
	switch {
	case wire.IsMissing(err), err == nil && a.Incarnation != g.run:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return a, nil
}

// expire stops the agent with all that it has started, and kills what is left after the grace period.
func (g *guard) expire(at deadline.Instant, why error) {
	a, err := g.agent()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s coppice pane: ending the agent: %v\n", time.Now().Format(time.RFC3339), err)
		g.sweep() // whatever it is
		return
	}
	if a == nil {
		return // its start looks at the deadline before the agent runs
	}
	kin := proc.Family(a.Agent)
	if kin != nil && !a.Asked.Stop {
		g.stop(a, kin, why)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		deadline.Wait(ctx.Done(), at.Add(deadline.LastGrace(a.Grace)))
		cancel()
	}()
	a.Agent.AwaitDeath(ctx)
	proc.AwaitLeftovers(ctx, func() ([]proc.Identity, error) { return proc.Leftovers(a.Agent, kin) })
	g.kill(a, kin)
}

// kill kills all that belongs to an agent, unless another one was started after it.
func (g *guard) kill(a *agent, kin []proc.Identity) {
	now := new(agent)
	if err := wire.ReadFile(filepath.Join(g.at, StateFile), now, &now.Version); err == nil && now.Incarnation != g.run {
		return
	}
	for _, id := range slices.Concat(kin, proc.Family(a.Agent)) {
		id.Signal(syscall.SIGKILL)
	}
	g.sweep()
}

// stop asks the agent and its processes to end, once each. It is written down first, because the daemon judges the
// end by that.
func (g *guard) stop(a *agent, kin []proc.Identity, why error) {
	e := expiry{Version: wire.Version, Incarnation: g.run}
	if why.Error() != runtime.ErrDeadline.Error() {
		e.Why = why.Error()
	}
	if err := wire.WriteFile(filepath.Join(g.at, ExpiredFile), &e); err != nil {
		fmt.Fprintf(os.Stderr, "%s coppice pane: %v\n", time.Now().Format(time.RFC3339), err)
	}
	for _, id := range kin {
		id.Signal(cmp.Or(syscall.Signal(a.Stop), syscall.SIGTERM))
	}
	for _, id := range kin {
		id.Signal(syscall.SIGCONT)
	}
}

// sweepTimeout bounds a sweep, which processes that cannot die delay.
const sweepTimeout = 10 * time.Second

// sweep kills what else has the marker of the slot.
func (g *guard) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	if err := g.sweeper.Sweep(ctx, wire.MarkerEnv+"="+wire.Marker(g.dir)); err != nil {
		fmt.Fprintf(os.Stderr, "%s coppice pane: ending the agent: %v\n", time.Now().Format(time.RFC3339), err)
	}
}

// lingerTime is the time that the daemon has, after the agent and its grace period, to end the keeper.
const lingerTime = 30 * time.Second

// linger is called when the pane was closed. With a deadline the keeper stays as long as the agent, and kills what that
// has left behind if no daemon does.
func (g *guard) linger() {
	g.mu.Lock()
	guarded := g.watcher != nil
	g.mu.Unlock()
	if !guarded {
		return
	}
	a, err := g.agent()
	if err != nil || a == nil {
		return
	}
	a.Agent.AwaitDeath(context.Background())
	<-time.After(deadline.LastGrace(a.Grace) + lingerTime)
	lock, err := wire.TryLock(".")
	if err != nil || lock == nil {
		return // a daemon is about to do it, or to start the next one
	}
	defer lock.Close()
	if a, err := g.agent(); err == nil && a != nil {
		g.sweep()
	}
}
