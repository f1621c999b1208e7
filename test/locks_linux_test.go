package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// locks is a directory in which the agents of all machines prove that none runs twice: each holds a lock, together with
// all that it starts, and notes in a file that another one has it.
type locks string

func newLocks(t *testing.T) locks {
	t.Helper()
	l := locks(t.TempDir())
	l.newEra(t)
	return l
}

// script returns a script that begins with the lock of an agent, and a line in its journal.
func (l locks) script(name, script string) string {
	return fmt.Sprintf(`read -r era < %[1]s/era
exec 9>> "%[1]s/%[2]s.$era.lock"
flock -n -E 75 9
case $? in
0) ;;
75) echo "%[2]s of ${PWD##*/}, incarnation $COPPICE_INCARNATION" >> %[1]s/violations; exit 1;;
*) exit 1;;
esac
echo "${PWD##*/} $COPPICE_INCARNATION $$" >> %[1]s/%[2]s.journal
%[3]s`, string(l), name, script)
}

// newEra has later agents ignore the locks of those before. It is for agents that were paused with their machine:
// nothing can stop them in time.
func (l locks) newEra(t *testing.T) {
	t.Helper()
	exectest.Write(t, filepath.Join(string(l), "era"), strconv.FormatInt(time.Now().UnixNano(), 10)+"\n")
}

// violations returns what the agents have noted.
func (l locks) violations() string {
	text, _ := os.ReadFile(filepath.Join(string(l), "violations"))
	return string(text)
}

// check fails the test if two incarnations of an agent have run at the same time.
func (l locks) check(t *testing.T) {
	t.Helper()
	if text := l.violations(); text != "" {
		t.Fatalf("agents have run twice at the same time:\n%s", text)
	}
}

// life is a line of the journal of an agent.
type life struct {
	node        string
	incarnation int
	pid         int
}

// lives reads the journal of an agent.
func (l locks) lives(t *testing.T, agent string) (all []life) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(l), agent+".journal"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var one life
		if _, err := fmt.Sscan(line, &one.node, &one.incarnation, &one.pid); err != nil {
			t.Fatalf("journal of %s: %q: %v", agent, line, err)
		}
		all = append(all, one)
	}
	return all
}

// The lock of an agent is held until its last child has ended, and a second holder is noted.
func TestLocks(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	start := func(script string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", l.script("a", script))
		cmd.Env = append(os.Environ(), "COPPICE_INCARNATION=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd
	}
	gone := filepath.Join(string(l), "go")
	era, err := os.ReadFile(filepath.Join(string(l), "era"))
	if err != nil {
		t.Fatal(err)
	}
	first := start("{ while [ -d " + string(l) + " ] && [ ! -e " + gone + " ]; do sleep 0.01; done; } & exit 0")
	if err := first.Wait(); err != nil || l.violations() != "" || len(l.lives(t, "a")) != 1 {
		t.Fatalf("%v, %q, %v", err, l.violations(), l.lives(t, "a"))
	}
	if err := start("exit 0").Wait(); err == nil || !strings.Contains(l.violations(), "a of test, incarnation 1") {
		t.Errorf("a second one while a child of the first one runs: %v, %q", err, l.violations())
	}
	l.newEra(t)
	if err := start("exit 0").Wait(); err != nil {
		t.Errorf("in another era: %v", err)
	}
	write(t, gone, "")
	lock := filepath.Join(string(l), "a."+strings.TrimSpace(string(era))+".lock")
	if out, err := exec.Command("flock", lock, "true").CombinedOutput(); err != nil { // when the child has ended
		t.Errorf("%v: %s", err, out)
	}
}
