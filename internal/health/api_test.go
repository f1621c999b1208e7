package health

import (
	"slices"
	"testing"
)

// Only agents that promise signs of life may be silent: a watchdog does not wait.
func TestEvidenceOfWaiting(t *testing.T) {
	const silent = "it waits for a person or a task, and may be silent until then"
	for _, tt := range []struct {
		vitals Info
		want   bool
	}{
		{Info{Waiting: true}, false},
		{Info{Waiting: true, HeartbeatTimeout: 1}, true},
		{Info{Waiting: true, ProgressTimeout: 1}, true},
		{Info{HeartbeatTimeout: 1}, false},
	} {
		if facts := Evidence(&tt.vitals); slices.Contains(facts, silent) != tt.want {
			t.Errorf("%+v: %q", tt.vitals, facts)
		}
	}
}
