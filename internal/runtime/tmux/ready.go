package tmux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// readiness is the wait for one incarnation's condition.
type readiness struct {
	await func(context.Context, proc.Subject) error
	line  func(proc.Line) // nil: the condition is not about the output
}

// arm prepares for the readiness of an incarnation that is about to start or of
// one that has been adopted. One without a condition is ready at once.
func arm(c spec.Ready, cmd *proc.Command, speaks *proc.NotifySocket) (*readiness, error) {
	p, err := proc.Readiness(c, speaks)
	if err != nil {
		return nil, fmt.Errorf("readiness condition: %w", err)
	}
	if p == nil {
		return &readiness{}, nil
	}
	var out proc.Output
	await, err := proc.Arm(p, cmd, &out)
	if err != nil {
		return nil, fmt.Errorf("readiness condition: %w", err)
	}
	return &readiness{await: await, line: out.Line}, nil
}

// again arms the condition of an incarnation that was adopted before it was ready.
func (ses *session) again() (*readiness, error) {
	env, err := ses.environ()
	if err != nil && len(ses.rec.Condition.Exec) > 0 {
		return nil, err
	}
	cmd := proc.Command{Dir: string(ses.rec.Dir), NoNewPrivileges: ses.rec.NoNewPrivileges}
	for kv := range strings.SplitSeq(string(env), "\x00") {
		if k, _, ok := strings.Cut(kv, "="); ok && k != "" {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return arm(ses.rec.Condition, &cmd, ses.speaks)
}

// environ returns the environment of the agent's process. In the middle of an
// execve the kernel shows none, and an agent always has some.
func (ses *session) environ() ([]byte, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", ses.rec.Agent.PID))
		if err != nil || len(env) > 0 || pause > time.Second || !ses.pause(pause) {
			return env, err
		}
	}
}

// subject is the session as a probe sees it. The end of the runtime ends the
// wait, too, but says nothing about the agent.
type subject struct {
	ses  *session
	done <-chan struct{}
}

func (s subject) PID() int              { return s.ses.rec.Agent.PID }
func (s subject) Done() <-chan struct{} { return s.done }
func (s subject) Exit() supervisor.Exit { return s.ses.Exit() }

// lookAgain is the least time for the condition of an incarnation that is taken
// over: it may have been met since, unobserved.
const lookAgain = 6 * time.Second

// awaitCondition sees a session through to readiness, or to its end because it
// was not ready in time.
func (ses *session) awaitCondition(ready *readiness) {
	r := ses.slot.r
	adopted := ready == nil
	if adopted {
		var err error
		if ready, err = ses.again(); err != nil {
			ses.notReady(fmt.Errorf("%w: readiness condition: %w", supervisor.ErrNotReady, err))
			return
		}
	}
	timeout := ses.rec.Condition.Timeout
	if timeout <= 0 {
		timeout = spec.DefaultReadyTimeout
	}
	deadline, late := ses.rec.StartedAt.Add(timeout), false
	if again := time.Now().Add(lookAgain); adopted && deadline.Before(again) {
		late, deadline = time.Now().After(deadline), again
	}
	ctx, cancel := context.WithDeadlineCause(r.ctx, deadline, supervisor.ErrStartTimeout)
	defer cancel()
	// Its lifetime: a condition may go on listening when it is met.
	over := make(chan struct{})
	if !r.background(func() {
		defer close(over)
		select {
		case <-ses.done:
		case <-r.ctx.Done():
		}
	}) {
		close(over)
	}
	if ready.line != nil {
		lctx, stop := context.WithCancel(ctx)
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			ses.feed(lctx, ready.line)
		}()
		defer func() { stop(); <-fed }()
	}
	err := ready.await(ctx, subject{ses, over})
	switch {
	case err == nil:
		ses.isReady()
	case r.ctx.Err() != nil:
	case late && ses.rec.Condition.Notify && !ses.isOver():
		ses.isReady() // it may have said so without a listener
	case ctx.Err() != nil || !ses.isOver():
		ses.notReady(err)
	}
}

// feed passes the output of this incarnation on to a condition.
func (ses *session) feed(ctx context.Context, line func(proc.Line)) {
	t, err := logfile.From(filepath.Join(ses.slot.dir, wire.LogFile), ses.rec.Begin)
	if err != nil {
		return
	}
	defer t.Close()
	ses.follow(ctx, t, func(text string) { line(proc.Line{Time: time.Now(), Stream: proc.Stdout, Text: text}) })
}

// isReady notes that the condition is met, also for the daemon that adopts it.
func (ses *session) isReady() {
	ses.update(func(rec *record) { rec.Ready = true })
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.rec.Ready = true
	if !isClosed(ses.ready) {
		close(ses.ready)
	}
}

// notReady ends an incarnation that has not become ready.
func (ses *session) notReady(err error) {
	ses.mu.Lock()
	ses.failure = err
	ses.mu.Unlock()
	grace := ses.grace()
	ses.signalKin(ses.stopSignal())
	if grace < 0 {
		return
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-ses.done:
	case <-ses.slot.r.ctx.Done():
	case <-t.C:
		kill(ses.rec.Agent)
	}
}
