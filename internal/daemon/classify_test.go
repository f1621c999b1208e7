package daemon

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/runtime/notice"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestExitData: what a program can read of an end, without reading prose.
func TestExitData(t *testing.T) {
	var long []string
	for i := range 12 {
		long = append(long, fmt.Sprintf("\x1b[31mline %d", i))
	}
	for name, c := range map[string]struct {
		exit supervisor.Exit
		want map[string]any
	}{
		"normal": {supervisor.Exit{Kind: supervisor.Normal}, map[string]any{"exit": "normal"}},
		"announced": {
			parting(supervisor.Exit{Kind: supervisor.Normal}, notice.Notice{Stopping: time.Now(), Status: "bye"}),
			map[string]any{"exit": "normal", "announced": true, "status_text": "bye"},
		},
		"announced, and a signal": {
			parting(supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGTERM}}, notice.Notice{Stopping: time.Now()}),
			map[string]any{"exit": "failure", "error": "ended by SIGTERM, as announced", "signal": "SIGTERM", "announced": true},
		},
		"announced, and a code": {
			parting(supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 3}}, notice.Notice{Stopping: time.Now(), Errno: 28, Status: "no space"}),
			map[string]any{"exit": "failure", "error": "exit code 3", "code": 3, "errno": 28, "status_text": "no space"},
		},
		"announced, and condemned": {
			parting(supervisor.Exit{Kind: supervisor.Failure, Err: &condemned{errTriggered, &proc.ExitError{Code: -1, Signal: syscall.SIGABRT}}}, notice.Notice{Stopping: time.Now()}),
			map[string]any{"exit": "failure", "error": errTriggered.Error(), "signal": "SIGABRT"},
		},
		"nothing said": {parting(supervisor.Exit{Kind: supervisor.Normal}, notice.Notice{Status: "idle"}), map[string]any{"exit": "normal"}},
		"error":        {supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}, map[string]any{"exit": "failure", "error": "boom"}},
		"code": {
			supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("agent: %w", &proc.ExitError{Code: 7, LastOutput: []string{"a", "\x1b]0;title\ab"}})},
			map[string]any{"exit": "failure", "error": "agent: exit code 7", "code": 7, "last_output": []string{"a", "b"}},
		},
		"signal": {
			supervisor.Exit{Kind: supervisor.Killed, Err: &proc.ExitError{Code: -1, Signal: syscall.SIGKILL}},
			map[string]any{"exit": "killed", "error": "ended by SIGKILL", "signal": "SIGKILL"},
		},
		"much output": {
			supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1, LastOutput: long}},
			map[string]any{"exit": "failure", "error": "exit code 1", "code": 1, "last_output": []string{
				"line 2", "line 3", "line 4", "line 5", "line 6", "line 7", "line 8", "line 9", "line 10", "line 11",
			}},
		},
	} {
		if d := cmp.Diff(c.want, exitData(c.exit, nil)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
