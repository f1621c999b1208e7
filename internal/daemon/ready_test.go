package daemon

import (
	"runtime"
	"testing"

	"github.com/coppice-dev/coppice/internal/store/memory"
)

// What the starts have used is returned to the system, after the daemon has said that it is ready.
func TestReadyReturnsMemory(t *testing.T) {
	c := mustOpen(t, newStage(), memory.New(), treeOf(t, "a"))
	defer func() {
		c.Stop(false)
		<-c.Ended()
	}()
	var before, then, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.tellReady(t.Context(), func(*Controller) { runtime.ReadMemStats(&then) })
	runtime.ReadMemStats(&after)
	if before.NumForcedGC != then.NumForcedGC || after.NumForcedGC == then.NumForcedGC {
		t.Errorf("collections: %d, %d when it is ready, %d", before.NumForcedGC, then.NumForcedGC, after.NumForcedGC)
	}
}
