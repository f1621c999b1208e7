package daemon

import (
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
)

// Only who has promised to give signs is allowed to be silent: a watchdog waits
// for nobody.
func TestEvidenceOfWaiting(t *testing.T) {
	const silent = "it waits for a person or a task, and may be silent meanwhile"
	for _, tt := range []struct {
		vitals api.Vitals
		want   bool
	}{
		{api.Vitals{Waiting: true}, false},
		{api.Vitals{Waiting: true, HeartbeatTimeout: 1}, true},
		{api.Vitals{Waiting: true, ProgressTimeout: 1}, true},
		{api.Vitals{HeartbeatTimeout: 1}, false},
	} {
		if facts := vitalEvidence(&tt.vitals); slices.Contains(facts, silent) != tt.want {
			t.Errorf("%+v: %q", tt.vitals, facts)
		}
	}
}
