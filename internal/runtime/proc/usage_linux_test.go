package proc

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// Usages and procfs read the same files.
func TestUsages(t *testing.T) {
	t.Parallel()
	burnt := time.Now()
	for time.Since(burnt) < 50*time.Millisecond { // so that some ticks have passed
	}
	p, err := procfs.NewProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.Stat()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Usages()
	if err != nil {
		t.Fatal(err)
	}
	got := all[os.Getpid()]
	after, err := p.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got.Parent != before.PPID || got.Start != before.Starttime {
		t.Errorf("got %+v, want parent %d, start %d", got, before.PPID, before.Starttime)
	}
	const rounding = 0.001
	if cpu := got.CPU.Seconds(); cpu < before.CPUTime()-rounding || cpu > after.CPUTime()+rounding {
		t.Errorf("processor time %v, want from %v to %v", cpu, before.CPUTime(), after.CPUTime())
	}
	if m := int(got.Memory); m < before.ResidentMemory()/4 || m > 4*after.ResidentMemory() {
		t.Errorf("memory %d, want about %d", m, before.ResidentMemory())
	}
}
