package trigger

import (
	"errors"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// The exit of a run carries the status that it sent last, unless a signal has ended it.
func TestReportedRun(t *testing.T) {
	const status = "try 1 of 4, 100 tokens left"
	for _, tt := range []struct {
		what   string
		exit   *proc.ExitError
		status string
		want   string
		giveUp bool
	}{
		{"it reports", &proc.ExitError{Code: 1}, status, status, false},
		{"it reports nothing", &proc.ExitError{Code: 1}, "", "exit code 1", false},
		{"its tokens are used up", &proc.ExitError{Code: aidefile.Spent.Code()}, status, status, true},
		{"killed", &proc.ExitError{Code: -1, Signal: syscall.SIGKILL}, status, "ended by SIGKILL", false},
		{"a crash", &proc.ExitError{Code: -1, Signal: syscall.SIGSEGV}, status, "ended by SIGSEGV", false},
	} {
		exited := exitedRun{Kind: supervisor.Failure, Err: tt.exit}
		m := &Manager{Options: Options{LastStatus: func(error) string { return tt.status }}}
		got := reportedRun{exited, m, "t/a", 1}.Wait().Err
		if got.Error() != tt.want || errors.Is(got, supervisor.ErrDoNotRestart) != tt.giveUp {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
