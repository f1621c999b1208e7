package runtimetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/spec"
)

// privilegedUser is the owner of a set-user-ID program, and of nothing else.
const privilegedUser = 61234

// testNoNewPrivileges checks that an agent that cannot gain privileges is marked by the kernel,
// with what it starts and with its readiness command, and that set-user-ID programs have no
// effect. Other agents are not marked.
func testNoNewPrivileges(t *testing.T, b *harness) {
	if goruntime.GOOS != "linux" {
		t.Skip("no_new_privileges needs Linux")
	}
	script := "echo child $(grep NoNewPrivs /proc/self/status)"
	setuid, expected := setUserID(t)
	if setuid != "" {
		script += fmt.Sprintf("; echo user $(%s -u)", setuid)
	}
	r := b.runtime()
	n := uint64(0)
	for _, terminal := range []bool{false, true} {
		for _, set := range []bool{true, false} {
			n++
			l := sh(fmt.Sprint("a", n), n, script+"; echo done; "+forever)
			l.Terminal, l.NoNewPrivileges = terminal, set
			flag, user := 0, expected
			if set {
				flag, user = 1, fmt.Sprint(os.Geteuid())
			}
			look := fmt.Sprintf("grep -q '^NoNewPrivs:.*%d$' /proc/self/status", flag)
			l.Ready = spec.Ready{Exec: []string{"/bin/sh", "-c", look}}
			s := b.start(r, l)
			if got := noNewPrivs(t, s.Observe().PID); got != fmt.Sprint(flag) {
				t.Errorf("terminal %v, set %v: the agent has NoNewPrivs %s", terminal, set, got)
			}
			if got := b.until(s, "child "); got != fmt.Sprintf("NoNewPrivs: %d", flag) {
				t.Errorf("terminal %v, set %v: a child has %s", terminal, set, got)
			}
			if setuid != "" {
				if got := b.until(s, "user "); got != user {
					t.Errorf("terminal %v, set %v: a set-user-ID program runs as %s, expected %s", terminal, set, got,
						user)
				}
			}
			s.Kill()
			b.exit(s)
			if err := r.Remove(b.ctx(), l.Path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := noNewPrivs(t, os.Getpid()); got != "0" {
		t.Errorf("the program that starts agents has NoNewPrivs %s", got)
	}
}

// setUserID creates a set-user-ID program that prints its user. Only root can create one, and
// only some file systems support it; otherwise the path is empty.
func setUserID(t *testing.T) (path, user string) {
	if os.Geteuid() != 0 {
		return "", ""
	}
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "id")
	exectest.Write(t, path, string(data))
	if err := os.Chown(path, privilegedUser, -1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	user = fmt.Sprint(privilegedUser)
	out, err := exec.Command(path, "-u").Output()
	if err != nil || string(out) != user+"\n" {
		t.Logf("set-user-ID programs do not work here: %q, %v", out, err)
		return "", ""
	}
	return path, user
}

var noNewPrivsLine = regexp.MustCompile(`(?m)^NoNewPrivs:\s*(\d+)$`)

// noNewPrivs returns the value in /proc/PID/status.
func noNewPrivs(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := noNewPrivsLine.FindSubmatch(status)
	if m == nil {
		t.Fatalf("process %d has no NoNewPrivs: %s", pid, status)
	}
	return string(m[1])
}
