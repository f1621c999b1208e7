package test

import (
	"strings"
	"testing"
)

// Without a daemon, commands report how the last one ended.
func TestFate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`))
	says := func(what, want string) {
		t.Helper()
		out, err := f.try("ps")
		if err != nil || !strings.Contains(out, "no daemon is running here") || (want == "") != !strings.Contains(out, "the last daemon") || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
	says("before the first", "")
	f.do("up", "-d")
	f.do("down")
	says("after down", "the last daemon was stopped on ")
	f.do("up", "-d")
	f.crash()
	says("after SIGKILL", "was killed or crashed; its agents may still run")
	f.do("down")
	says("after down without it", "the last daemon was stopped on ")
	f.rewrite("[supervision]\nmax_restarts = 0\non_limit = \"escalate\"\n\n", agentTOML("a", `read x < go; exit 7`))
	end := fifo(t, f.dir, "go")
	f.do("up", "-d")
	end()
	eventually(t, "the end of the daemon", func() bool {
		out, _ := f.try("ps")
		return strings.Contains(out, "the last daemon ended") // it has released everything
	})
	says("after its limit", "limit reached (0 restarts")
}

// A limit is shown once, for the supervisor whose children share it.
func TestWhoseLimit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "[supervision]\nmax_restarts = 7\non_limit = \"escalate\"\n\n",
		agentTOML("a", `exit 7`, `backoff = { kind = "fixed", base = "5m" }`),
		agentTOML("own", `exec sleep 1000`, `on_limit = "give_up"`, `max_restarts = 3`),
		"[[supervisor]]\nname = \"s\"\nchildren = [\"b\"]\n\n", agentTOML("b", `exec sleep 1000`))
	f.up()
	f.awaitState("t/a", "restarting")
	for path, want := range map[string][2]int{
		"t": {1, 7}, "t/a": {0, -1}, "t/own": {0, 3}, "t/s": {0, 7}, "t/s/b": {0, -1},
	} {
		if n := f.node(path); [2]int{n.InWindow, n.LimitMax} != want || (n.Limit == "") != (n.LimitMax < 0) {
			t.Errorf("%s: %d of %d, %q; want %v", path, n.InWindow, n.LimitMax, n.Limit, want)
		}
	}
}
