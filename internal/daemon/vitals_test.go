package daemon

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Only who has promised to give signs is allowed to be silent: a watchdog waits
// for nobody.
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
		if facts := vitalEvidence(&tt.vitals); slices.Contains(facts, silent) != tt.want {
			t.Errorf("%+v: %q", tt.vitals, facts)
		}
	}
}

// TestReadyBeforeItsStartIsKnown checks that an agent without a condition, which
// says that it is ready before its start is known here, waits for that.
func TestReadyBeforeItsStartIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/a", part{takes: time.Second})
		c := mustOpen(t, s, memory.New(), treeOf(t, "a"))
		defer func() { c.Stop(false); <-c.Ended() }()
		time.Sleep(500 * time.Millisecond)
		if err := c.Ready(t.Context(), api.Caller{Path: "t/a", Incarnation: 1}); err != nil {
			t.Error(err)
		}
	})
}
