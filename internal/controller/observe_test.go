package controller

import (
	"context"
	"fmt"
	"math"
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
	least := math.Inf(1) // the allocations of others count, too: some events are still being written
	for range 10 {
		least = min(least, testing.AllocsPerRun(1, func() { c.observer.Observe(f) }))
	}
	if least > 1.5*n {
		t.Errorf("%v allocations for %d agents", least, n)
	}
}
