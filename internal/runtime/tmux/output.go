package tmux

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
)

func (s *slot) logFile() string { return filepath.Join(s.dir, logfile.Name) }

// Peek returns the last lines of the log, or of the screen if the agent draws on it instead of
// writing lines.
func (ses *session) Peek(ctx context.Context, n int) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	if lines, ok := ses.Screen(ctx, n); ok {
		return lines, nil
	}
	lines, err := logfile.Peek(ses.slot.logFile(), n)
	return lines, errors.Join(err, ctx.Err())
}

// Screen returns the last lines of the screen of an agent that draws on it.
func (ses *session) Screen(ctx context.Context, n int) (lines []string, paints bool) {
	p := ses.info(ctx)
	if p == nil || !p.screen {
		return nil, false
	}
	out, err := ses.slot.r.tmux(ctx, nil, "capture-pane", "-p", "-J", "-t", p.id)
	if err != nil {
		return nil, false
	}
	return screenLines(out, n), true
}

// info asks tmux about the pane; it returns nil if the pane is not known to be that of this
// incarnation.
func (ses *session) info(ctx context.Context) *paneInfo {
	a := ses.slot.r.panes(ctx, "#{==:#{pane_id},"+ses.rec.Pane+"}")
	if a.err != nil || a.server != ses.rec.Server.PID {
		return nil
	}
	p := a.pane(ses.rec.Pane)
	if p == nil || p.pid != ses.rec.Agent.PID {
		return nil
	}
	return p
}

func screenLines(out string, n int) []string {
	lines := strings.Split(strings.TrimRight(out, " \n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, l := range lines {
		lines[i] = plaintext.Line(strings.TrimRight(l, " "))
	}
	return lines
}

// Follow is part of runtime.Session.
func (ses *session) Follow(ctx context.Context, grew func()) error {
	return ses.grows(ctx, func() error { grew(); return nil })
}

// follow passes on the lines of the log. It reads them from the file; the keeper only reports
// that there are more. So however slow f is, no line is missing unless it was rotated away.
func (ses *session) follow(ctx context.Context, t *logfile.Tail, f func(string)) error {
	lines := logfile.Texts(f)
	err := ses.grows(ctx, func() error { return t.Next(lines) })
	if err == nil && ses.hasEnded() {
		t.Rest(lines)
	}
	return err
}

// grows calls grew immediately, and whenever the log has grown, until ctx is done, the
// incarnation has ended or grew fails.
func (ses *session) grows(ctx context.Context, grew func() error) error {
	fctx, cancel := ses.slot.r.both(ctx)
	defer cancel()
	go func() {
		select {
		case <-ses.done: // the keeper has ended by then, unless it was lost
			cancel()
		case <-fctx.Done():
		}
	}()
	for {
		if ses.hasEnded() {
			return grew()
		}
		err := ses.slot.grown(fctx, grew)
		switch {
		case ctx.Err() != nil:
			return nil
		case ses.hasEnded():
			continue
		case ses.slot.r.Ctx.Err() != nil:
			return slots.ErrClosed
		case err != nil:
			return err
		}
		// The keeper has ended: the agent has ended, or the keeper was killed.
		if err := grew(); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
			ses.slot.r.tmux(fctx, nil, ses.slot.pipe(ses.rec.Pane, "", ses.rec.Incarnation, ses.rec.Log, true)...)
		case <-ses.done:
		case <-fctx.Done():
		}
	}
}

// grown calls f whenever the log has grown, until the keeper ends or f fails.
func (s *slot) grown(ctx context.Context, f func() error) error {
	c, leave, err := s.keeper(ctx)
	if err != nil {
		return nil
	}
	defer leave()
	if err := c.Send(&pane.Message{Type: pane.Follow}); err != nil {
		return nil
	}
	for {
		m, err := c.Receive()
		if err != nil || m.Type != pane.Grew {
			return nil
		}
		if err := f(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// LastActivity returns the time of the last write to the log, the last input, or the last
// activity in any window of the session, including those that people have opened.
func (ses *session) LastActivity(ctx context.Context) (time.Time, error) {
	ses.mu.Lock()
	last := ses.input
	ses.mu.Unlock()
	st, err := os.Stat(ses.slot.logFile())
	if err == nil && st.ModTime().After(last) {
		last = st.ModTime()
	}
	if ses.hasEnded() {
		return last, nil
	}
	out, err := ses.slot.r.tmux(ctx, nil, "list-windows", "-t", ses.rec.Pane, "-F",
		"#{window_activity} #{session_activity}")
	if err != nil {
		if errors.Is(ses.commandError(err), runtime.ErrEnded) {
			return last, nil
		}
		return time.Time{}, ses.commandError(err)
	}
	at, err := parseActivity(out)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	}
	// tmux counts seconds, so use the end of that second.
	if at = at.Add(time.Second - 1); at.After(last) {
		last = at
		if now := time.Now(); last.After(now) && last.Sub(now) < time.Second {
			last = now
		}
	}
	return last, nil
}

// parseActivity returns the latest of the times, in seconds, that tmux prints.
func parseActivity(out string) (last time.Time, err error) {
	for _, field := range strings.Fields(out) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			return time.Time{}, fmt.Errorf("unexpected window activity from tmux: %.40q", field)
		}
		if at := time.Unix(n, 0); at.After(last) {
			last = at
		}
	}
	return last, nil
}

// Write writes to the terminal, whatever mode the pane is in.
func (ses *session) Write(ctx context.Context, data []byte) error {
	if ses.hasEnded() {
		return runtime.ErrEnded
	}
	if len(data) == 0 {
		return nil
	}
	ses.mu.Lock()
	ses.input = time.Now()
	ses.mu.Unlock()
	buffer := rand.Text() // other writers use other buffers
	_, err := ses.slot.r.tmux(ctx, bytes.NewReader(data),
		"load-buffer", "-b", buffer, "-", ";", "paste-buffer", "-d", "-r", "-b", buffer, "-t", ses.rec.Pane)
	if err != nil {
		ses.slot.r.tmux(context.WithoutCancel(ctx), nil, "delete-buffer", "-b", buffer)
	}
	return ses.commandError(err)
}

// commandError explains the failure of a tmux command.
func (ses *session) commandError(err error) error {
	switch {
	case err == nil:
		return nil
	case ses.hasEnded(), proc.Observe(ses.rec.Agent) == proc.Dead:
		return runtime.ErrEnded
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
}

// Resize changes the size of the window. With an attached client, the size changes again when
// that of its terminal does.
func (ses *session) Resize(ctx context.Context, rows, cols uint16) error {
	if ses.hasEnded() {
		return runtime.ErrEnded
	}
	return ses.commandError(ses.slot.resize(ctx, ses.rec.Pane, rows, cols))
}

func (s *slot) resize(ctx context.Context, pane string, rows, cols uint16) error {
	_, err := s.r.tmux(ctx, nil,
		"resize-window", "-t", pane, "-x", strconv.Itoa(int(cols)), "-y", strconv.Itoa(int(rows)),
		// resize-window makes the size permanent.
		";", "set-option", "-w", "-u", "-t", pane, "window-size")
	return err
}
