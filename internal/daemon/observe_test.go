package daemon

import (
	"context"
	"fmt"
	"testing"

	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A pass looks at each agent of a fleet, so it makes no garbage for each but its path.
func TestObserveAllocatesLittle(t *testing.T) {
	const n = 500
	var words []string
	for i := range n {
		words = append(words, fmt.Sprint("a", i))
	}
	c := mustOpen(t, newStage(), memory.New(), treeOf(t, words...))
	defer func() { c.Stop(false); <-c.Ended() }()
	if err := c.Started(context.Background()); err != nil {
		t.Fatal(err)
	}
	f := c.fleet()
	if got := testing.AllocsPerRun(10, func() { c.observer.Observe(f) }); got > 1.5*n {
		t.Errorf("%v allocations for %d agents", got, n)
	}
}
