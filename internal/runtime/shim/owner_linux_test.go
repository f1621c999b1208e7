package shim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// A process below a shim belongs to its agent, for a runtime that has started it and for one
// that only sees its slot. So does a process in the control group of the slot.
func TestOwner(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s, err := r.Start(ctxOf(t), sh("app/a", 1, "sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := proc.LineageOf(s.Observe().PID)
	if err != nil {
		t.Fatal(err)
	}
	agent.Group = "" // found by its parents alone
	own, err := proc.LineageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	name, err := wire.DirName("app/a")
	if err != nil {
		t.Fatal(err)
	}
	group := wire.GroupName(filepath.Join(r.Dir, name))
	grouped := proc.Lineage{Processes: own.Processes, Group: "/x/" + group + "/made/by/it"}
	other := proc.Lineage{Processes: own.Processes, Group: "/x/" + wire.GroupName(filepath.Join(r.Dir+"x", name))}
	inner := proc.Lineage{Processes: append(append([]proc.Identity{}, own.Processes[0]), agent.Processes...)}
	reused := proc.Lineage{Processes: append([]proc.Identity{}, agent.Processes...)}
	reused.Processes[1].Start++
	for _, test := range []struct {
		name string
		of   proc.Lineage
		path string
		at   int
	}{
		{"the agent", agent, "app/a", 1},
		{"below the agent", inner, "app/a", 2},
		{"this process", own, "", -1},
		{"in its group", grouped, "app/a", 0},
		{"in a group of another project", other, "", -1},
		{"below one with the shim's number", reused, "", -1},
	} {
		if path, at := r.Owner(test.of); path != test.path || at != test.at {
			t.Errorf("%s: %q at %d, want %q at %d", test.name, path, at, test.path, test.at)
		}
	}
	if path, at := open(t, dir).Owner(agent); path != "app/a" || at != 1 {
		t.Errorf("of a runtime that has not adopted it: %q at %d", path, at)
	}
}

// The process of an incarnation that has ended is forgotten.
func TestOwnersOfEndedIncarnations(t *testing.T) {
	r := open(t, slotsDir(t))
	for n := range uint64(3) {
		s := start(t, r, sh("app/a", n+1, "exec sleep 1000"))
		s.Kill()
		wait(t, "the end", s.Done())
	}
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	if len(r.owners.agents) > 0 {
		t.Errorf("%d processes are known, and none runs", len(r.owners.agents))
	}
}
