package daemon

import (
	"runtime"
	"testing"

	"github.com/coppice-dev/coppice/internal/controller"
)

// What the starts have used is returned to the system, after the daemon has said that it is ready.
func TestReadyReturnsMemory(t *testing.T) {
	var before, then, after runtime.MemStats
	m := &machine{ServeOptions: ServeOptions{Ready: func(*controller.Controller) { runtime.ReadMemStats(&then) }}}
	runtime.ReadMemStats(&before)
	m.ready(nil)
	runtime.ReadMemStats(&after)
	if before.NumForcedGC != then.NumForcedGC || after.NumForcedGC == then.NumForcedGC {
		t.Errorf("collections: %d, %d when it is ready, %d", before.NumForcedGC, then.NumForcedGC, after.NumForcedGC)
	}
}
