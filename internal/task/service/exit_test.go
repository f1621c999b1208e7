package service

import (
	"errors"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Only a failure of the agent counts against the task that it had claimed.
func TestEndOf(t *testing.T) {
	crash := supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 3}}
	clean := supervisor.Exit{Kind: supervisor.Normal}
	hung := supervisor.Exit{Kind: supervisor.Failure, Err: &agent.UnhealthyError{Reason: errors.New("idle for 45m"),
		Exit: supervisor.ErrKilled}}
	for _, tt := range []struct {
		what             string
		exit             supervisor.Exit
		asked, finishing bool
		want             string
	}{
		{"a crash", crash, false, false, "exit code 3"},
		{"an end by itself that closed nothing", clean, false, false, "ended without closing it"},
		{"the out-of-memory killer",
			supervisor.Exit{Kind: supervisor.Killed, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGKILL}},
			false, false, "killed: ended by SIGKILL"},
		{"it hung, and was ended as a failure", hung, false, false, "idle for 45m"},
		{"it hung, and a stop came later", hung, true, false, "idle for 45m"},
		{"a stop, a restart, drift, a sibling, shutdown", supervisor.Exit{Kind: supervisor.ShutDown}, true, false, ""},
		{"a stop that it met with a crash", crash, true, false, ""},
		{"a stop by a daemon that has ended", supervisor.Exit{Kind: supervisor.ShutDown}, false, false, ""},
		{"a kill by a daemon that has ended", supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled},
			false, false, ""},
		{"it was drained and ended", clean, false, true, ""},
		{"it was drained and crashed", crash, false, true, "exit code 3"},
		{"its account is used up", supervisor.Exit{Kind: supervisor.Failure, Err: &quota.EndError{
			Text: "usage limit", Wait: &supervisor.RetryError{}, Exit: &proc.ExitError{Code: 1}}}, false, false, ""},
		{"the server of its model is overloaded", supervisor.Exit{Kind: supervisor.Failure, Err: &quota.EndError{
			Text: "overloaded", Exit: &proc.ExitError{Code: 1}, Obstacle: outcome.Overloaded}}, false, false, ""},
		{"its model has refused", supervisor.Exit{Kind: supervisor.Failure, Err: &quota.EndError{
			Text: "refused: no", Exit: &proc.ExitError{Code: 1}}}, false, false, "refused: no"},
		{"how it ended is not known", agent.LostExit(), false, false, ""},
	} {
		if got := endOf(agent.Exit{Exit: tt.exit, Asked: tt.asked, Draining: tt.finishing}).Failure; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
