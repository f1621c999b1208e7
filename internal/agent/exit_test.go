package agent

import (
	"testing"

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
