package tmux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Server returns the pid of the project's tmux server, and whether it may be running.
func (r *Runtime) Server() (pid int, lives bool) {
	id, err := r.lastServer()
	switch {
	case wire.IsMissing(err):
		return 0, false
	case err != nil:
		return 0, true
	}
	return id.PID, proc.Observe(id) != proc.Dead
}

// over reports whether the program in the pane has ended, which tmux may not know yet.
func (p *paneInfo) over() bool { return p.ended || syscall.Kill(p.pid, 0) == syscall.ESRCH }

// Quit closes the panes whose agent has ended, after its end is recorded. Logs and records stay;
// the last screen does not. The server ends with its last pane. Windows that people have opened
// stay.
func (r *Runtime) Quit(ctx context.Context) error {
	r.finish()
	if _, lives := r.Server(); !lives {
		return nil
	}
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return fmt.Errorf("listing the slots: %w", err)
	}
	answer := r.panes(ctx, "")
	var kill []string
	for _, e := range entries {
		if !e.IsDir() || answer.err != nil {
			continue
		}
		dir := filepath.Join(r.Dir, e.Name())
		rec, err := readRecord(dir)
		if err != nil || rec.Server.PID != answer.server {
			continue
		}
		p := answer.pane(rec.Pane)
		if p == nil || p.pid == rec.Agent.PID && gather(dir, rec, answer).end == nil || p.pid != rec.Agent.PID &&
			!p.over() {
			continue
		}
		if len(kill) > 0 {
			kill = append(kill, ";")
		}
		kill = append(kill, "kill-pane", "-t", p.id)
	}
	if len(kill) == 0 {
		return nil
	}
	if _, err := r.tmux(ctx, nil, kill...); err != nil && r.panes(ctx, "0").err == nil {
		return fmt.Errorf("closing the panes of agents that have ended: %w", err)
	}
	return nil
}
