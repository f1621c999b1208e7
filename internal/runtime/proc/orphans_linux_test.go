package proc

import (
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What an agent leaves behind is listed with all that is below it; what was started here is not.
func TestStrays(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	var r Reaper
	mark := MarkOf(78)
	cmd := sh(`setsid sh -c 'echo "above $$"; sh -c "echo \"below \$\$\"; exec sleep 1000"; true' & read line`)
	cmd.Reaper, cmd.Mark, cmd.Input = &r, mark, true
	p, out := start(t, cmd)
	var want []int
	for _, prefix := range []string{"above ", "below "} {
		pid, err := strconv.Atoi(out.await(t, prefix))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, pid)
	}
	strays := func() (pids []int) {
		all, err := r.Strays(func(s Stray) bool { return s.Mark == mark })
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range all {
			pids = append(pids, id.PID)
		}
		return pids
	}
	if got := strays(); len(got) > 0 {
		t.Errorf("while the agent runs %v is listed, want nothing", got)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if got := strays(); !slices.Equal(got, want) {
		t.Errorf("%v is listed, want %v", got, want)
	}
	for _, pid := range want {
		syscall.Kill(pid, syscall.SIGKILL)
		gone(t, strconv.Itoa(pid))
	}
	r.Collect()
}

// Searches that wait for the same forks are one.
func TestOrphansTogether(t *testing.T) {
	var r Reaper
	l, first := r.join()
	again, second := r.join()
	if !first || second || l != again {
		t.Error("two calls before a search begins are two searches")
	}
	r.search(l)
	<-l.done
	if later, first := r.join(); !first || later == l {
		t.Error("a call after the beginning of a search gets its result")
	}
}

// What a stopped agent leaves behind is found without a look at the other agents.
func TestRestOfOneAmongMany(t *testing.T) {
	var r Reaper
	cost := func() float64 {
		cmd := sh("exec sleep 1000")
		cmd.Reaper = &r
		p, _ := start(t, cmd)
		return testing.AllocsPerRun(3, func() {
			if left, err := p.rest(); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
	alone := cost()
	for range 20 {
		cost()
	}
	if many := cost(); many > alone+20 {
		t.Errorf("%v allocations among 22 agents, %v alone", many, alone)
	}
}
