package health

import (
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
)

// Only agents that promise signs of life may be silent: a watchdog does not wait.
func TestEvidenceOfWaiting(t *testing.T) {
	const silent = "it waits for a person or a task, and may be silent until then"
	for _, tt := range []struct {
		vitals api.Vitals
		want   bool
	}{
		{api.Vitals{Waiting: true}, false},
		{api.Vitals{Waiting: true, HeartbeatTimeout: 1}, true},
		{api.Vitals{Waiting: true, ProgressTimeout: 1}, true},
		{api.Vitals{HeartbeatTimeout: 1}, false},
	} {
		if facts := Evidence(&tt.vitals); slices.Contains(facts, silent) != tt.want {
			t.Errorf("%+v: %q", tt.vitals, facts)
		}
	}
}
