package test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/status"
)

// Exits are handled immediately, and so are their consequences: the next reconciliation is a day
// away.
func TestExitNeedsNoRound(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"proc", "tmux"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			if runtime == "tmux" {
				needTmux(t)
			}
			f := newFleet(t, "[daemon]\npatrol_interval = \"1d\"\nmax_restarts = 4\n\n",
				agentTOML("a", `exec sleep 1000`, `runtime = "`+runtime+`"`, `backoff = "none"`),
				agentTOML("b", `exec sleep 1000`, `runtime = "`+runtime+`"`, `depends_on = ["a"]`))
			f.do("up", "-d")
			kill := func(n status.Node) {
				t.Helper()
				exectest.Signal(t, n.PID, syscall.SIGKILL)
			}
			for n := uint64(1); n < 4; n++ {
				was := f.node("t/a")
				if was.Incarnation != n {
					t.Fatalf("before its end it is %+v, want incarnation %d", was, n)
				}
				kill(was)
				f.awaitNode("t/a", "the next incarnation", func(now status.Node) bool { return now.State == "running" && now.Incarnation == n+1 })
			}
			kill(f.node("t/a"))
			f.awaitState("t/a", "quarantined")
			f.do("reset", "t/a")
			f.awaitNode("t/a", "started by hand", func(now status.Node) bool { return now.State == "running" && now.Incarnation == 5 })
			if b := f.node("t/b"); b.State != "running" || b.Incarnation != 1 {
				t.Errorf("its sibling is %+v", b)
			}
		})
	}
}

// A reconciliation uses the last valid file. If the file on disk is invalid, patrol never claims
// that everything matches it.
func TestPatrolOfRefusedFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", "exec sleep 1000"))
	f.do("up", "-d")
	if out := f.do("patrol"); out != "nothing to do: what runs is what the file says\n" {
		t.Errorf("at first: %q", out)
	}
	f.edit("name = \"a\"", "name = \"a\"\ncomand = \"x\"")
	eventually(t, "the refusal", func() bool { return strings.Contains(f.do("status"), " rejected: ") })
	for _, args := range [][]string{{"patrol"}, {"patrol", "--dry-run"}, {"up", "--dry-run"}, {"patrol", "--json"}} {
		f.wantFailure(exitConfig, args, "the file was rejected, and the previous version stays in force:\ncoppice.toml:", `unknown key "comand" in [[agent]]`)
	}
	f.edit("\ncomand = \"x\"", "")
	eventually(t, "the repair", func() bool { return !strings.Contains(f.do("status"), " rejected: ") })
	f.do("up", "--dry-run")
}
