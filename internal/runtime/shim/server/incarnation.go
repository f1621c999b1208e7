package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// incarnation is one incarnation of the agent.
type incarnation struct {
	slot     *slot
	number   uint64
	grace    time.Duration
	terminal bool
	input    bool
	started  chan struct{} // closed when process is set, or never will be
	process  process
	ended    chan struct{}
	group    *agentGroup         // nil if it has none
	notify   *ready.NotifySocket // nil if it has none

	mu        sync.Mutex
	stopped   bool
	overdue   bool
	expired   error       // why the deadline of the node has stopped it; nil if it has not
	killTimer *time.Timer // from the stop signal to SIGKILL
	lifeTimer *time.Timer // ends its lifetime; nil if unlimited
}

// begin starts the process or the function of an incarnation that is that of its slot. A deadline that comes before
// that refuses it, and a later one stops it.
func (run *incarnation) begin(l *runtime.Launch) (process, func(context.Context) error, error) {
	if err := run.slot.shim.watcher().Passed(); err != nil {
		return nil, nil, err
	}
	if l.Program != nil {
		return run.beginFunction(l)
	}
	process, await, err := run.fork(l)
	if err != nil && run.group != nil {
		return run.forkOutside(l, err)
	}
	return process, await, err
}

func hasCondition(r spec.Ready) bool {
	return r.Log != "" || r.TCP != "" || r.HTTP != "" || len(r.Exec) > 0 || r.Notify
}

// fork starts the process. await waits for its readiness.
func (run *incarnation) fork(l *runtime.Launch) (p process, await func(context.Context) error, err error) {
	s := run.slot
	if s.shim.program != nil {
		return nil, nil, fmt.Errorf("this shim has only agents of %s", s.shim.key)
	}
	notify, err := run.listenNotify(l)
	if err != nil {
		return nil, nil, err
	}
	run.notify = notify
	defer func() {
		if err != nil && notify != nil {
			notify.Close()
		}
	}()
	probe, err := ready.ProbeOf(l.Ready, notify)
	if err != nil {
		return nil, nil, err
	}
	cmd := proc.Command{
		Argv: l.Argv, Dir: l.Dir, Env: append(slices.Clip(l.Env), s.marker()),
		StopSignal: l.StopSignal, Input: l.Input, Reaper: &s.shim.reaper, Mark: s.mark,
		NoNewPrivileges: l.NoNewPrivileges, Paths: l.Paths, User: l.User,
	}
	if notify != nil {
		cmd.Env = notify.Environ(cmd.Env, l.Watchdog)
	}
	if l.Terminal {
		cmd.Terminal = &proc.Size{Rows: l.Rows, Cols: l.Cols}
	}
	limits := l.Limits
	if run.group != nil {
		f, err := run.group.enter(&limits)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		cmd.Group = f
	}
	if err := limit(&cmd, limits); err != nil {
		return nil, nil, err
	}
	if l.Stdin != "" {
		f, err := proc.OpenStdin(l.Stdin)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	started, await, err := ready.Begin(cmd, s.output.sinks(run, s.drained), probe)
	if err != nil {
		return nil, nil, err // not a process that is a nil pointer
	}
	return started, await, nil
}

// watch handles an incarnation from its start. The state is saved and readiness awaited
// here; for the rest of its life, a goroutine waits that has done nothing yet: its stack has a
// quarter of the size.
func (run *incarnation) watch(await func(context.Context) error, l *runtime.Launch) {
	run.slot.saveState()
	var notReady error
	if hasCondition(l.Ready) {
		notReady = run.awaitReady(await, l)
	} else {
		await(context.Background())
	}
	go run.awaitEnd(l.Timeout, notReady)
}

// awaitReady waits until an incarnation is ready, and ends one that does not become so in time. Agents
// of programs have no such time unless the launch says so.
func (run *incarnation) awaitReady(await func(context.Context) error, l *runtime.Launch) error {
	s := run.slot
	timeout := l.Ready.Timeout
	if timeout <= 0 && l.Program == nil {
		timeout = spec.DefaultReadyTimeout
	}
	ctx := context.Background()
	if timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, timeout, supervisor.ErrStartTimeout)
		defer cancel()
		ctx = limited
	}
	if err := await(ctx); err != nil {
		run.process.End(run.graceOrNever())
		return err
	}
	s.mu.Lock()
	s.state.Ready = true
	s.broadcastState()
	s.mu.Unlock()
	s.saveState()
	s.shim.releaseMemory()
	return nil
}

// awaitEnd handles the end of an incarnation. notReady is why it did not become ready; nil if it
// did. timeout is that of its lifetime.
func (run *incarnation) awaitEnd(timeout time.Duration, notReady error) {
	<-run.process.Done()
	at := time.Now()
	if run.notify != nil {
		run.notify.Leave() // receives its last messages
		run.slot.unused.add(run.notify)
	}
	exit := run.group.explainExit(run.process.Exit()) // before the group is removed
	run.sweep()
	stopped, overdue, expired := run.asked()
	switch {
	case expired != nil && exit.Kind != supervisor.Normal:
		exit = supervisor.Exit{Kind: supervisor.Failure, Err: because(expired, exit.Err)}
	case overdue && exit.Kind != supervisor.Normal:
		err := fmt.Errorf("%w: %v", runtime.ErrOverdue, timeout)
		exit = supervisor.Exit{Kind: supervisor.Failure, Err: because(err, exit.Err)}
	case notReady != nil && !stopped:
		if exit.Clean() {
			exit.Kind = supervisor.Failure
		}
		exit.Err = notReady
	}
	run.end(exit, at)
	<-run.process.Drained()
	run.slot.outputEnded()
}

func (s *slot) outputEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pumped(1)
}

// end reports and records the end of an incarnation. It reports first, so that the record is
// written while clients decide what comes next. A successor is started only after the record.
//
// If this process is killed in between, those who got the report know the end. For all others
// the incarnation is lost, as if that had happened a moment earlier. The record is synced later
// still: only a power cut could undo it, and that ends everything else, too.
func (run *incarnation) end(exit supervisor.Exit, at time.Time) {
	s := run.slot
	run.stopTimers()
	s.output.log.End(run.number, exit.String(), !exit.Clean()) // before its successor may begin
	end := wire.NewEnd(exit, at)
	tell := func() {
		s.mu.Lock()
		s.run = nil
		s.state.End = end
		s.broadcast(&wire.Message{Type: wire.Exited, Incarnation: run.number, End: end, Ready: s.state.Ready,
			Told: s.output.listener.Load().count(), Said: s.said.takeNews()})
		s.startLinger()
		s.mu.Unlock()
		close(run.ended)
	}
	s.records.add(run.number, end, s, tell)
	s.shim.releaseMemory()
}

// graceOrNever returns the grace period, or the longest duration if there is none.
func (run *incarnation) graceOrNever() time.Duration {
	if run.grace < 0 {
		return 1<<63 - 1
	}
	return run.grace
}

// stop asks the agent to end, once, and kills it after its grace period, or after the given one
// if that is longer.
func (run *incarnation) stop(grace time.Duration) {
	<-run.started
	if run.process == nil {
		return
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.stopped {
		return
	}
	run.stopped = true
	run.process.Stop()
	if run.grace >= 0 {
		run.killTimer = time.AfterFunc(max(run.grace, grace), run.process.Kill)
	}
}

func (run *incarnation) kill() {
	<-run.started
	if run.process != nil {
		run.process.Kill()
	}
}

// asked reports whether the incarnation was stopped, whether its timeout did that, and why the deadline of its node
// did.
func (run *incarnation) asked() (stopped, overdue bool, expired error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.stopped, run.overdue, run.expired
}

// limitLifetime ends the incarnation after a time; 0 means never.
func (run *incarnation) limitLifetime(timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.lifeTimer = time.AfterFunc(timeout, func() {
		run.mu.Lock()
		// an agent that was stopped before is not overdue
		run.overdue = !run.stopped
		run.mu.Unlock()
		run.process.Stop()
		time.AfterFunc(max(0, run.grace), run.process.Kill)
	})
}

// because returns the error of an incarnation that was ended for a reason. exit is the error of its process, if any.
func because(why, exit error) error {
	if exit == nil || errors.Is(exit, supervisor.ErrKilled) {
		return why
	}
	return fmt.Errorf("%w (%w)", why, exit)
}

func (run *incarnation) stopTimers() {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.lifeTimer != nil {
		run.lifeTimer.Stop()
	}
	if run.killTimer != nil {
		run.killTimer.Stop()
	}
}

// write writes to the terminal or the standard input of the agent.
func (run *incarnation) write(data []byte) error {
	_, err := run.process.Write(data)
	return requestError(err)
}

// resize changes the size of the terminal, and returns it.
func (run *incarnation) resize(m *wire.Message) (proc.Size, error) {
	if err := run.process.Resize(proc.Size{Rows: m.Rows, Cols: m.Cols}); err != nil {
		return proc.Size{}, requestError(err)
	}
	return run.size()
}

// size returns the size of the terminal.
func (run *incarnation) size() (proc.Size, error) {
	select {
	case <-run.started:
	default:
		return proc.Size{}, runtime.ErrUnknown
	}
	if run.process == nil {
		return proc.Size{}, runtime.ErrEnded
	}
	size, err := run.process.TerminalSize()
	return size, requestError(err)
}

// requestError translates an error of package proc into one that clients know.
func requestError(err error) error {
	switch {
	case errors.Is(err, proc.ErrNoInput):
		return fmt.Errorf("%w: %w", runtime.ErrUnsupported, err)
	case errors.Is(err, os.ErrProcessDone):
		return runtime.ErrEnded
	}
	return err
}
