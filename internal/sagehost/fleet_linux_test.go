package sagehost

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// An agent of a program has no more privileges than the file gives it.
func TestPrivilegesOfFleet(t *testing.T) {
	script := []string{"/bin/sh", "-c", "grep NoNewPrivs /proc/self/status"}
	lines := make(chan string, 10)
	f := &fleet{
		agents: map[string]*spec.Agent{
			"bound": {Name: "bound", Command: script, Dir: "/", NoNewPrivileges: true},
			"other": {Name: "other", Command: script, Dir: "/", User: "61234"},
		},
		output: func(_ string, _ uint64, l proc.Line) { lines <- l.Text },
	}
	if _, err := f.child("other"); err == nil || !strings.Contains(err.Error(), "only the daemon") {
		t.Errorf("another user: %v", err)
	}
	p, err := f.start(t.Context(), f.agents["bound"], syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-lines:
		if line != "NoNewPrivs:\t1" {
			t.Errorf("it has %q", line)
		}
	case <-time.After(time.Minute):
		t.Error("it says nothing")
	}
	p.Wait()
}
