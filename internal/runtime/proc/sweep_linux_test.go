package proc

import (
	"os"
	"testing"
)

// Processes that had the entry before are killed each time; entries that no process had need no
// scan.
func TestSweepUnused(t *testing.T) {
	marked := func(entry string) (*Process, Identity) {
		cmd := sh("echo ready; exec sleep 1000")
		cmd.Env = append(os.Environ(), entry)
		p, out := start(t, cmd)
		out.await(t, "ready")
		id, err := p.Identity()
		if err != nil {
			t.Fatal(err)
		}
		return p, id
	}
	const a, b = "SWEEP_TEST=a=1", "SWEEP_TEST=b"
	old, _ := marked(a)
	var s Sweeper
	if err := s.SweepUnused(testContext(t), a); err != nil {
		t.Fatal(err)
	}
	<-old.Done()
	_, later := marked(b)
	if err := s.SweepUnused(testContext(t), b); err != nil || Observe(later) != Alive {
		t.Errorf("%v; what was started after the first look is %v", err, Observe(later))
	}
	again, _ := marked(a)
	if err := s.SweepUnused(testContext(t), a); err != nil {
		t.Fatal(err)
	}
	<-again.Done()
	if err := s.Sweep(testContext(t), b); err != nil || Observe(later) != Dead {
		t.Errorf("%v; after Sweep it is %v", err, Observe(later))
	}
}
