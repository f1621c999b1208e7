package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/status"
)

// statusField returns a field of /proc/PID/status.
func statusField(t *testing.T, pid int, field string) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + field + `:[ \t]*(.*)$`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("process %d has no %s: %s", pid, field, status)
	}
	return strings.Join(strings.Fields(string(m[1])), " ")
}

// Agents and their commands cannot gain privileges; the daemon keeps its own.
func TestNoNewPrivileges(t *testing.T) {
	needTmux(t)
	t.Parallel()
	const keep = `no_new_privileges = true`
	hook := `on_start = '''grep NoNewPrivs: /proc/self/status > "${COPPICE_AGENT#t/}.hook"'''`
	agents := func(pipes string) []string {
		return []string{
			agentTOML("pipes", `exec sleep 1000`, pipes, hook),
			agentTOML("terminal", `exec sleep 1000`, keep, hook, `terminal = true`),
			agentTOML("tmux", `exec sleep 1000`, keep, hook, inTmux),
			agentTOML("free", `exec sleep 1000`, hook),
		}
	}
	f := newFleet(t, agents(keep)...)
	f.do("up", "-d")
	for name, want := range map[string]string{"pipes": "1", "terminal": "1", "tmux": "1", "free": "0"} {
		n := f.awaitState("t/"+name, "running")
		if got := statusField(t, n.PID, "NoNewPrivs"); got != want {
			t.Errorf("%s has NoNewPrivs %s, expected %s", name, got, want)
		}
		text := f.do("explain", name)
		if n.NoNewPrivileges != (want == "1") || strings.Contains(text, "no new privileges") != n.NoNewPrivileges {
			t.Errorf("%s: shown as %v, and as %s", name, n.NoNewPrivileges, text)
		}
		eventually(t, "the hook of "+name, func() bool {
			data, _ := os.ReadFile(filepath.Join(f.dir, name+".hook"))
			return strings.Join(strings.Fields(string(data)), " ") == "NoNewPrivs: "+want
		})
	}
	if got := statusField(t, f.status().Controller.PID, "NoNewPrivs"); got != "0" {
		t.Errorf("the daemon has NoNewPrivs %s", got)
	}
	f.rewrite(agents("")...)
	f.do("reload")
	n := f.awaitNode("t/pipes", "is restarted", func(n status.Node) bool {
		return n.State == "running" && n.Incarnation == 2
	})
	if got := statusField(t, n.PID, "NoNewPrivs"); got != "0" {
		t.Errorf("after the change: NoNewPrivs %s, %+v", got, n)
	}
}
