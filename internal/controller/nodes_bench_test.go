package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store/memory"
)

// BenchmarkNodes measures what ps asks for: 1,000 agents below ten supervisors.
func BenchmarkNodes(b *testing.B) {
	var words []string
	for i := range 10 {
		var agents []string
		for j := range 100 {
			agents = append(agents, fmt.Sprintf("a%d-%d", i, j))
		}
		words = append(words, fmt.Sprintf("g%d(%s)", i, strings.Join(agents, " ")))
	}
	c := mustOpen(b, newStage(), memory.New(), treeOf(b, words...))
	if err := c.Started(context.Background()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if nodes, err := c.Model().Nodes(context.Background(), ""); err != nil || len(nodes) != 1011 {
			b.Fatal(len(nodes), err)
		}
	}
	c.Stop(false)
	<-c.Ended()
}
