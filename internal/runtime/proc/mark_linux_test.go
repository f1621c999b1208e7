package proc

import (
	"strconv"
	"strings"
	"testing"
)

// A mark stays with all that a process starts, whatever that does to get rid of it, and is no
// limit. What is started without a mark has none.
func TestMark(t *testing.T) {
	var r Reaper
	script := `(exec env -i setsid sh -c 'exec /bin/sh -c "echo pid \$\$; exec sleep 1000"') & wait`
	for _, mark := range []Mark{MarkOf(0), MarkOf(77), MarkOf(1<<64 - 1), 0} {
		cmd := sh(script)
		cmd.Reaper, cmd.Mark = &r, mark
		p, out := start(t, cmd)
		pid, err := strconv.Atoi(strings.TrimPrefix(out.await(t, "pid "), "pid "))
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{pid, p.PID()} {
			if got := ReadMark(pid); got != mark {
				t.Errorf("process %d has mark %#x, want %#x", pid, got, mark)
			}
		}
		all, err := r.Strays(func(s Stray) bool { return s.PID == p.PID() })
		if err != nil || len(all) > 0 {
			t.Errorf("a child that was started here counts as left behind: %v, %v", all, err)
		}
		p.Kill()
		<-p.Done()
	}
	if MarkOf(0) == 0 || MarkOf(1) == MarkOf(2) {
		t.Error("marks are the same")
	}
}
