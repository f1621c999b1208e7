package test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
)

// On a machine alone, agents run whatever their placement is. It is shown, also without a daemon, and a change of it
// restarts nothing.
func TestPlacement(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	crew := func(keys ...string) string {
		return agentTOML("crew", "exec sleep 1000", append(keys, "pool = { min = 1, max = 2 }")...)
	}
	f.rewrite(agentTOML("here", "exec sleep 1000", `node = "elsewhere"`), agentTOML("any", "exec sleep 1000"),
		crew(`labels = { zone = "eu" }`, `max_per_node = 3`))
	f.do("up", "-d")
	pids := map[string]int{}
	for _, path := range []string{"t/here", "t/any", "t/crew/crew-1"} {
		pids[path] = f.awaitState(path, "running").PID
	}
	shows := func(want map[string]*spec.Placement) {
		t.Helper()
		var list []status.Node
		if err := json.Unmarshal([]byte(f.do("ps", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		got := map[string]*spec.Placement{}
		for _, n := range list {
			if n.Placement != nil {
				got[n.Path] = n.Placement
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for _, path := range []string{"t/here", "t/any", "t/crew", "t/crew/crew-1"} {
			text := f.do("explain", path)
			if p := want[path]; p != nil && !strings.Contains(text, "place  "+p.String()+"\n") ||
				p == nil && strings.Contains(text, "place  ") {
				t.Errorf("%s, want %v:\n%s", path, p, text)
			}
		}
	}
	pool := &spec.Placement{Labels: map[string]string{"zone": "eu"}, MaxPerNode: 3}
	shows(map[string]*spec.Placement{"t/here": {Node: "elsewhere"}, "t/crew": pool, "t/crew/crew-1": pool})

	f.rewrite(agentTOML("here", "exec sleep 1000"), agentTOML("any", "exec sleep 1000", `max_per_node = 1`),
		crew(`spread = "zone"`))
	if out := f.do("reload"); !strings.Contains(out, "changed") {
		t.Error(out)
	}
	pool = &spec.Placement{Spread: "zone"}
	shows(map[string]*spec.Placement{"t/any": {MaxPerNode: 1}, "t/crew": pool, "t/crew/crew-1": pool})
	f.do("patrol") // which would restart what has drifted
	for path, pid := range pids {
		if n := f.node(path); n.PID != pid || n.Incarnation != 1 {
			t.Errorf("%s is incarnation %d with pid %d, expected 1 with pid %d", path, n.Incarnation, n.PID, pid)
		}
	}
	f.do("down")
	if text := f.do("explain", "any"); !strings.Contains(text, "place  at most 1 on each node\n") {
		t.Error(text)
	}
}
