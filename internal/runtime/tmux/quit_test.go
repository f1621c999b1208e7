package tmux

import (
	"context"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Panes are closed once the end of their agent is recorded. Agents that run, or whose end is
// unknown, stay.
func TestQuit(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	if _, lives := r.Server(); lives {
		t.Error("a server lives before anything was started")
	}
	if err := r.Quit(ctxOf(t)); err != nil {
		t.Error(err)
	}
	start(t, r, sh("app/lives", 1, forever))
	unseen := start(t, r, sh("app/unseen", 1, "read x; exit 7"))
	over := start(t, r, sh("app/over", 1, "echo last words"))
	exit(t, over)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	// No daemon runs while it ends.
	r = open(t, dir)
	if _, err := r.call(ctxOf(t), nil, "send-keys", "-t", unseen.rec.Pane, "x", "Enter"); err != nil {
		t.Fatal(err)
	}
	if err := unseen.rec.Agent.AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	if err := r.Quit(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range r.panes(ctxOf(t), "").all {
		names[p.session[strings.LastIndexByte(p.session, '-')+1:]] = true
	}
	if !names["lives"] || !names["unseen"] || names["over"] {
		t.Errorf("sessions: %v", names)
	}
	s, err := r.Adopt(ctxOf(t), "app/unseen")
	if err != nil {
		t.Fatal(err)
	}
	if x := exit(t, s); x.Err == nil || x.Err.Error() != "exit code 7" {
		t.Errorf("unseen: %v", x)
	}
	if s, err = r.Adopt(ctxOf(t), "app/over"); err != nil {
		t.Fatal(err)
	}
	if lines, err := s.Peek(ctxOf(t), 5); err != nil || len(lines) != 1 || lines[0] != "last words" {
		t.Errorf("its log: %q, %v", lines, err)
	}
	exit(t, start(t, r, sh("app/over", 2, "exit 0")))

	if s, err = r.Adopt(ctxOf(t), "app/lives"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	exit(t, s)
	id, err := r.lastServer()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Quit(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	if err := id.AwaitDeath(ctxOf(t)); err != nil {
		t.Errorf("the server did not end with its last pane: %v", err)
	}
	if pid, lives := r.Server(); lives || pid != id.PID || proc.Observe(id) != proc.Dead {
		t.Errorf("server %d lives: %v", pid, lives)
	}
	if err := r.Quit(context.Background()); err != nil {
		t.Error(err)
	}
}
