package daemon

import (
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Nothing is exported unless the daemon is to, whatever the file says, and agents get no variable.
func TestNoTraces(t *testing.T) {
	tree := treeOf(t, "a")
	tree.Traces = spec.Traces{Endpoint: "http://127.0.0.1:1"}
	c := mustOpen(t, newStage(), memory.New(), tree)
	env := []string{"COPPICE_INCARNATION=1"}
	if got, err := c.environ("t/a", env); c.traces != nil || !slices.Equal(got, env) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	c.Stop(false)
	<-c.Ended()
}
