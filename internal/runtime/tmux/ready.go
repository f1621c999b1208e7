package tmux

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// readiness waits for the condition of one incarnation.
type readiness struct {
	await func(context.Context, ready.Subject) error
	line  func(proc.Line) // nil if the condition does not depend on the output
}

// arm prepares for the readiness of an incarnation that is about to start or was adopted.
// Without a condition it is ready immediately.
func arm(c spec.Ready, cmd *proc.Command, notify *ready.NotifySocket) (*readiness, error) {
	p, err := ready.ProbeOf(c, notify)
	if err != nil {
		return nil, fmt.Errorf("readiness condition: %w", err)
	}
	if p == nil {
		return &readiness{}, nil
	}
	var out proc.Output
	await, err := ready.Arm(p, cmd, &out)
	if err != nil {
		return nil, fmt.Errorf("readiness condition: %w", err)
	}
	return &readiness{await: await, line: out.Line}, nil
}

// rearm arms the condition of an incarnation that was adopted before it was ready.
func rearm(ses *session) (*readiness, error) {
	env, err := ses.slot.r.environ(ses.rec.Agent.PID)
	if err != nil && len(ses.rec.Condition.Exec) > 0 {
		return nil, err
	}
	cmd := proc.Command{Dir: string(ses.rec.Dir), NoNewPrivileges: ses.rec.NoNewPrivileges}
	for kv := range strings.SplitSeq(string(env), "\x00") {
		if k, _, ok := strings.Cut(kv, "="); ok && k != "" {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return arm(ses.rec.Condition, &cmd, ses.notify)
}

// environ returns the environment of an agent's process. It tries again if that is empty, as it
// is in the middle of an execve, because an agent always has some.
func (r *Runtime) environ(pid int) ([]byte, error) {
	for pause := time.Millisecond; ; pause *= 2 {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || len(env) > 0 || pause > time.Second || !r.pause(pause) {
			return env, err
		}
	}
}

// subject is the session for a probe. Closing the runtime also ends the wait, but says nothing
// about the agent.
type subject struct {
	ses  *session
	done <-chan struct{}
}

func (s subject) PID() int              { return s.ses.rec.Agent.PID }
func (s subject) Done() <-chan struct{} { return s.done }
func (s subject) Exit() supervisor.Exit { return s.ses.Exit() }

// lookAgain is the minimum time for the condition of an adopted incarnation, which may have been
// met unnoticed.
const lookAgain = 6 * time.Second

// awaitCondition waits until the incarnation is ready, and ends it if it is not ready in time.
func (ses *session) awaitCondition(condition *readiness) {
	r := ses.slot.r
	adopted := condition == nil
	if adopted {
		var err error
		if condition, err = rearm(ses); err != nil {
			ses.endUnready(fmt.Errorf("%w: readiness condition: %w", supervisor.ErrNotReady, err))
			return
		}
	}
	deadline, late := ses.rec.StartedAt.Add(ses.rec.readyTimeout()), false
	if again := time.Now().Add(lookAgain); adopted && deadline.Before(again) {
		late, deadline = time.Now().After(deadline), again
	}
	ctx, cancel := context.WithDeadlineCause(r.Ctx, deadline, supervisor.ErrStartTimeout)
	defer cancel()
	// The condition may continue to listen after it is met, for as long as this channel is open.
	over := make(chan struct{})
	if !r.Background(func() {
		defer close(over)
		select {
		case <-ses.done:
		case <-r.Ctx.Done():
		}
	}) {
		close(over)
	}
	if condition.line != nil {
		lctx, stop := context.WithCancel(ctx)
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			condition.feed(lctx, ses)
		}()
		defer func() { stop(); <-fed }()
	}
	err := condition.await(ctx, subject{ses, over})
	switch {
	case err == nil:
		ses.markReady()
	case r.Ctx.Err() != nil:
	case late && ses.rec.Condition.Notify && !ses.hasEnded():
		ses.markReady() // it may have sent READY=1 while nothing listened
	case ctx.Err() != nil || !ses.hasEnded():
		ses.endUnready(err)
	}
}

// feed passes the output of an incarnation to its condition.
func (r *readiness) feed(ctx context.Context, ses *session) {
	t, err := logfile.From(ses.slot.logFile(), ses.rec.Begin)
	if err != nil {
		return
	}
	defer t.Close()
	ses.follow(ctx, t, func(text string) { r.line(proc.Line{Time: time.Now(), Stream: proc.Stdout, Text: text}) })
}

// markReady records that the condition is met, also for a daemon that adopts the incarnation.
func (ses *session) markReady() {
	ses.update(ses.slot.r.Ctx, func(rec *record) { rec.Ready = true })
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.rec.Ready = true
	if !slots.IsClosed(ses.ready) {
		close(ses.ready)
	}
}

// endUnready ends an incarnation that has not become ready.
func (ses *session) endUnready(err error) {
	ses.mu.Lock()
	ses.failure = err
	ses.mu.Unlock()
	ses.signalKin(ses.rec.stopSignal())
	grace := ses.rec.grace()
	if grace < 0 {
		return
	}
	select {
	case <-ses.done:
	case <-ses.slot.r.Ctx.Done():
	case <-time.After(grace):
		kill(ses.rec.Agent)
	}
}
