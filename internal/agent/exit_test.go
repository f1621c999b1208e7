package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestDied(t *testing.T) {
	for _, tt := range []struct {
		what                   string
		asked, draining, clean bool
		want                   bool
	}{
		{"a crash", false, false, false, true},
		{"an end with 0 that was not asked for", false, false, true, true},
		{"a stop", true, false, true, false},
		{"a stop that took SIGKILL", true, false, false, false},
		{"it was drained, and ends", false, true, true, false},
		{"it was drained, and crashes", false, true, false, true},
		{"it was drained, and is stopped", true, true, false, false},
	} {
		x := Exit{Exit: supervisor.Exit{Kind: supervisor.Failure}, Asked: tt.asked, Draining: tt.draining}
		if tt.clean {
			x.Kind = supervisor.Normal
		}
		if got := x.Died(); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

// What has ended with its node is started again, and no limit counts it; what is never restarted stays ended.
func TestWithoutNode(t *testing.T) {
	failed := errors.New("crashed")
	for _, tt := range []struct {
		err     error
		restart supervisor.Restart
		retries bool
	}{
		{runtime.ErrDeadline, supervisor.Permanent, true},
		{fmt.Errorf("%w: node b", runtime.ErrNodeLost), supervisor.Transient, true},
		{runtime.ErrNodeLost, supervisor.Temporary, false},
		{failed, supervisor.Permanent, false},
		{nil, supervisor.Permanent, false},
	} {
		exit := withoutNode(supervisor.Exit{Kind: supervisor.Failure, Err: tt.err}, tt.restart)
		retry, ok := errors.AsType[*supervisor.RetryError](exit.Err)
		if ok != tt.retries || exit.Kind != supervisor.Failure || !errors.Is(exit.Err, tt.err) {
			t.Errorf("%v, %v: %v", tt.err, tt.restart, exit.Err)
		}
		if ok && time.Until(retry.At) > 0 {
			t.Errorf("%v: it is started again at %v", tt.err, retry.At)
		}
	}
	err := withoutLease(fmt.Errorf("x: %w", runtime.ErrNoNode), supervisor.Temporary)
	if retry, ok := errors.AsType[*supervisor.RetryError](err); !ok || time.Until(retry.At) < noNodePause/2 {
		t.Errorf("one that no node takes: %v", err)
	}
	for err, retries := range map[error]bool{runtime.ErrFenced: true, runtime.ErrBusy: false} {
		_, ok := errors.AsType[*supervisor.RetryError](withoutLease(fmt.Errorf("x: %w", err), supervisor.Permanent))
		if ok != retries {
			t.Errorf("a start that fails with %v: %v", err, ok)
		}
	}
}
