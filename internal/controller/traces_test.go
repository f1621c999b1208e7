package controller

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A sandbox exports nothing, whatever the file says, and its agents get no variable.
func TestNoTraces(t *testing.T) {
	tree := treeOf(t, "a")
	tree.Traces = spec.Traces{Endpoint: "http://127.0.0.1:1"}
	c, err := Open(t.Context(), Options{
		Tree: tree, Store: memory.New(), Runtimes: []runtime.Runtime{newStage()}, Sandbox: true,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"COPPICE_INCARNATION=1"}
	if got, err := c.environ("t/a", env); c.traces != nil || !slices.Equal(got, env) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	c.Stop(false)
	<-c.Ended()
}
