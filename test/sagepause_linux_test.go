package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Ctrl-Z: agents pause before the process stops, and resume when it continues.
func TestSagePause(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.sg"), `
agent A receives Int {
    on start { print("start"); }
    on message(n: Int) { print(n); }
    on pause { print("pause"); }
    on resume { print("resume"); }
    on resting { print("resting"); }
}
agent Busy { on start { print("busy"); loop { sleep_ms(10); } } on pause { print("never"); } }
supervisor S { strategy: OneForOne children { A { restart: Transient } Busy { restart: Transient } } }
run S;
`)
	r := launch(t, dir, "run", "p.sg")
	stat := fmt.Sprintf("/proc/%d/stat", r.Process.Pid)
	r.out.await(t, "the start", func() bool {
		return strings.Contains(r.out.String(), "busy") && strings.Contains(r.out.String(), "start")
	})
	turns := func() (all []string) {
		for _, line := range r.out.lines() {
			if line == "pause" || line == "resume" {
				all = append(all, line)
			}
		}
		return all
	}
	stop := func() {
		t.Helper()
		r.signal(syscall.SIGTSTP)
		eventually(t, "the stop", func() bool {
			text, err := os.ReadFile(stat)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(text), ") ")
			return strings.HasPrefix(rest, "T ")
		})
	}
	for len(turns()) < 20 { // the agent may not be waiting yet
		stop()
		r.signal(syscall.SIGCONT)
		stop() // at once: the kernel may then drop the signal before
		r.signal(syscall.SIGCONT)
		r.out.await(t, "going on", func() bool { return len(turns())%2 == 0 })
	}
	for i, turn := range turns() {
		if want := []string{"pause", "resume"}[i%2]; turn != want {
			t.Errorf("%s, want %s, in\n%s", turn, want, r.out)
		}
	}
	r.signal(syscall.SIGTERM)
	r.wantExit(exitSignalled + int(syscall.SIGTERM))
	if got := r.out.String(); !strings.HasSuffix(got, "resting\n") || strings.Contains(got, "never") {
		t.Errorf("%s", got)
	}
}
