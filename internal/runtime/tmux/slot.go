package tmux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// slot is the place of one agent.
type slot struct {
	r               *Runtime
	path, name, dir string
	turn            chan struct{} // a mutex for changes of what runs in the slot
	writer          chan struct{} // a semaphore for the attached writer
}

const (
	lockTimeout    = 3 * time.Second // that another program may hold the lock of a slot
	pendingTimeout = 3 * time.Second // for tmux to notice the end of a process
	signalTimeout  = time.Second     // for tmux to report how a process has ended
	cutTimeout     = 3 * time.Second // for an agent without a server to die
	firstPause     = time.Millisecond
	lastPause      = 100 * time.Millisecond
)

// lock keeps all others, also other programs, from changing the slot.
func (s *slot) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		f, err := wire.TryLock(s.dir)
		if f != nil {
			return func() { f.Close(); <-s.turn }, nil
		}
		if err == nil && time.Since(begin) > lockTimeout {
			err = fmt.Errorf("%w: another program has locked slot %s", runtime.ErrUnknown, s.dir)
		}
		if err == nil {
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		<-s.turn
		return nil, err
	}
}

// found is the state of a slot.
type found struct {
	rec    *record   // nil if nothing was ever started
	end    *wire.End // nil if it runs
	answer answer    // of the server
}

// inspect determines the state of the slot and kills what is left of an incarnation that has
// ended. seen is when the end was noticed; asked is what this program has requested. Needs the
// lock. It returns ErrUnknown if the state cannot be determined.
func (s *slot) inspect(ctx context.Context, seen time.Time, asked proc.Asked) (*found, error) {
	filter := "#{==:#{session_name}," + s.name + "}"
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		rec, err := readRecord(s.dir)
		if wire.IsMissing(err) {
			return &found{answer: s.r.panes(ctx, filter)}, nil
		}
		if err != nil {
			return s.rebuild(ctx, err)
		}
		if rec.Path != s.path {
			return nil, fmt.Errorf("slot %s belongs to agent %.200q", s.dir, rec.Path)
		}
		f := &found{rec: rec, answer: s.r.panes(ctx, "#{||:"+filter+",#{==:#{pane_id},"+rec.Pane+"}}")}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		v := judge(gather(s.dir, rec, f.answer))
		if v.pending && v.pane.dead && time.Since(begin) > signalTimeout {
			v.life = runtime.Dead // before tmux 3.3, it never reports the signal
		}
		switch {
		case v.life == runtime.Alive:
			return f, nil
		case v.end != nil:
			f.end = v.end
			return f, nil
		case v.life == runtime.Dead:
			rec.Asked.Stop, rec.Asked.Kill = rec.Asked.Stop || asked.Stop, rec.Asked.Kill || asked.Kill
			rec.Asked.Sent |= asked.Sent
			f.end, err = s.conclude(ctx, rec, v, seen)
			return f, err
		case v.cutOff && time.Since(begin) < cutTimeout:
			s.r.log.Warn("agent runs without its tmux server; killing it", "path", s.path, "pid", rec.Agent.PID)
			kill(rec.Agent)
		case v.pending && time.Since(begin) < pendingTimeout:
			// tmux 3.3 misses the end of one child in thirty, forever. SIGCHLD makes it check
			// all of them.
			rec.Server.Signal(syscall.SIGCHLD)
		case !v.cutOff || time.Since(begin) > cutTimeout:
			return nil, fmt.Errorf("%w: %w", runtime.ErrUnknown, v.why)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// kill kills a process and all that belongs to it.
func kill(id proc.Identity) {
	kin := proc.Family(id)
	id.Signal(syscall.SIGKILL)
	for _, k := range kin {
		k.Signal(syscall.SIGKILL)
	}
}

// conclude kills what an incarnation has left behind, waits for the last of its output, and
// records how it ended.
func (s *slot) conclude(ctx context.Context, rec *record, v verdict, seen time.Time) (*wire.End, error) {
	if err := s.r.sweeper.Sweep(ctx, s.marker()); err != nil {
		return nil, fmt.Errorf("%w: killing what incarnation %d left behind: %w", runtime.ErrUnknown,
			rec.Incarnation, err)
	}
	tail := s.flush(ctx, rec)
	end := wire.NewEnd(exitOf(s.dir, rec, v, tail), v.at(rec, seen))
	s.recordEnd(rec, end)
	return end, nil
}

// recordEnd writes the exit record of an incarnation.
func (s *slot) recordEnd(rec *record, end *wire.End) {
	record := &wire.Record{Version: wire.Version, Incarnation: rec.Incarnation, End: *end}
	if err := wire.WriteFile(filepath.Join(s.dir, wire.ExitFile), record); err != nil {
		s.r.log.Warn("cannot record the end of an incarnation", "path", s.path, "error", err)
	}
}

// marker returns the environment entry of all that runs in the slot.
func (s *slot) marker() string { return wire.MarkerEnv + "=" + wire.Marker(s.dir) }

// rebuild determines the state of a slot whose state file is damaged. The session has a copy.
// Without a session nothing of the slot runs, after a sweep.
func (s *slot) rebuild(ctx context.Context, damage error) (*found, error) {
	s.r.log.Warn("cannot read the state of a slot", "path", s.path, "error", damage)
	out, err := s.recordOption(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; %w", runtime.ErrUnknown, damage, err)
	}
	line, _, _ := strings.Cut(out, "\n")
	if line != "" {
		rec, err := parseOption(line, s.dir)
		if err != nil {
			return nil, fmt.Errorf("%w: %w; %w", runtime.ErrUnknown, damage, err)
		}
		rec.outlived(time.Now())
		if err := rec.write(s.dir); err != nil {
			return nil, fmt.Errorf("%w: %w; %w", runtime.ErrUnknown, damage, err)
		}
		return s.inspect(ctx, time.Now(), proc.Asked{})
	}
	rec := &record{Version: wire.Version, Path: s.path, Incarnation: 1, StartedAt: time.Now()}
	if last, err := wire.ReadRecord(s.dir); err == nil {
		rec.Incarnation = last.Incarnation + 1 // at least
	}
	f := &found{rec: rec, answer: s.r.panes(ctx, "0")}
	f.end, err = s.conclude(ctx, rec, verdict{lost: damage}, time.Now())
	if err == nil {
		err = rec.write(s.dir)
	}
	return f, err
}

// recordOption returns the record in the session of the slot; empty if there is no server. A
// server whose last session has ended runs for a moment longer and answers with an error.
func (s *slot) recordOption(ctx context.Context) (string, error) {
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		out, err := s.r.tmux(ctx, nil, "list-panes", "-a", "-f", "#{==:#{session_name},"+s.name+"}", "-F",
			"#{"+recordOption+"}")
		if err == nil {
			return out, nil
		}
		if id, serr := s.r.lastServer(); serr == nil && proc.Observe(id) == proc.Dead {
			return "", nil
		}
		if time.Since(begin) > pendingTimeout {
			return "", err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Adopt creates a session of the last incarnation.
func (s *slot) Adopt(ctx context.Context) (runtime.Session, error) {
	unlock, err := s.lock(ctx)
	if wire.IsMissing(err) {
		return nil, fmt.Errorf("nothing was ever started: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	f, err := s.inspect(ctx, time.Now(), proc.Asked{})
	if err != nil {
		return nil, err
	}
	if f.rec == nil {
		return nil, fmt.Errorf("nothing was ever started: %w", fs.ErrNotExist)
	}
	if f.end == nil {
		if err := s.tellDeadline(ctx, f.rec); err != nil {
			return nil, err
		}
	}
	ses := newSession(s, f.rec)
	if f.end != nil {
		ready.ForgetNotify(f.rec.Socket)
		ses.finish(f.end)
		return ses, nil
	}
	ses.resumeNotify()
	ses.live(nil)
	ses.listen(logfile.End(s.logFile()))
	return ses, nil
}

// Remove closes the session of the slot and deletes its files.
func (s *slot) Remove(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if wire.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	f, err := s.inspect(ctx, time.Now(), proc.Asked{})
	if err != nil {
		return err
	}
	if f.rec != nil && f.end == nil {
		return fmt.Errorf("%w: incarnation %d is running", runtime.ErrBusy, f.rec.Incarnation)
	}
	if f.answer.err != nil {
		if id, err := s.r.lastServer(); err == nil && proc.Observe(id) != proc.Dead {
			if err := s.r.checkServer(ctx, f.answer); err != nil {
				return err
			}
		}
	}
	if p := s.pane(f); p != nil {
		// By the pane, because people may have renamed the session.
		if _, err := s.r.tmux(ctx, nil, "kill-session", "-t", p.id); err != nil && s.r.panes(ctx, "0").err == nil {
			return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		}
	}
	return s.r.Discard(s.dir, s.path)
}

// pane returns the pane of the slot; nil if there is none.
func (s *slot) pane(f *found) *paneInfo {
	if f.rec != nil && f.answer.server == f.rec.Server.PID {
		if p := f.answer.pane(f.rec.Pane); p != nil {
			return p
		}
	}
	return f.answer.session(s.name)
}

var errSuperseded = errors.New("another incarnation was started in its slot")
