package controller

import (
	"context"
	"testing"

	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
)

// The hash of a declaration is computed once, when the file is read, and not at each start.
func TestDeclaredHashIsShared(t *testing.T) {
	c := mustOpen(t, newStage(), memory.New(), treeOf(t, "a"))
	defer func() { c.Stop(false); <-c.Ended() }()
	if err := c.Started(context.Background()); err != nil {
		t.Fatal(err)
	}
	declared := c.fleet().Hashes["t/a"]
	of := c.hashes.Of(token.Caller{Path: "t/a", Incarnation: 1})
	if !of.Known() || &of.Fields[0] != &declared.Fields[0] {
		t.Errorf("the hash of the incarnation is another: %+v", of)
	}
	a := c.fleet().Agents["t/a"]
	if n := testing.AllocsPerRun(1000, func() { c.fleet().Declared("t/a", a) }); n != 0 {
		t.Errorf("it takes %v allocations", n)
	}
	other := *a
	other.Command = []string{"other"}
	if got := c.fleet().Declared("t/a", &other); got.Sum == declared.Sum {
		t.Error("another declaration has the same hash")
	}
}
