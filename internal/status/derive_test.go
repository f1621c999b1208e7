package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
)

// The state of a supervisor follows from what is in it.
func TestDeriveStates(t *testing.T) {
	agent := func(state string) Node { return Node{Kind: "agent", State: state} }
	looping := Node{Kind: "agent", State: "restarting", Loop: CrashLoop}
	idle := Node{Kind: "agent", State: "stopped", Aide: &trigger.Info{State: "idle"}}
	idleStopped := Node{Kind: "agent", State: "stopped", Aide: &trigger.Info{State: "stopped"}, StoppedByHand: true}
	sub := func(state string) Node { return Node{Kind: "supervisor", State: state} }
	pausedAgent := Node{Kind: "agent", State: "paused", Reason: "limit reached, paused until resumed"}
	for name, tt := range map[string]struct {
		own           string
		children      []Node
		state, reason string
	}{
		"empty":                      {"running", nil, "running", ""},
		"all run":                    {"running", []Node{agent("running"), agent("running")}, "running", ""},
		"one is started":             {"running", []Node{agent("starting"), agent("stopped")}, "running", ""},
		"one waits for its delay":    {"running", []Node{agent("restarting"), agent("suspended")}, "running", ""},
		"one waits for another":      {"running", []Node{agent("waiting"), agent("suspended")}, "running", ""},
		"some stopped by hand":       {"running", []Node{agent("running"), agent("stopped")}, "running", ""},
		"all suspended":              {"running", []Node{agent("suspended"), agent("suspended")}, "suspended", "nothing in it runs"},
		"suspended and stopped":      {"running", []Node{agent("stopped"), agent("suspended")}, "suspended", "nothing in it runs"},
		"all stopped":                {"running", []Node{agent("stopped"), agent("stopped")}, "stopped", "nothing in it runs"},
		"one quarantined":            {"running", []Node{agent("running"), agent("quarantined")}, "degraded", "t/s/1 is quarantined"},
		"the first in trouble":       {"running", []Node{agent("given_up"), agent("quarantined")}, "degraded", "t/s/0 is given up"},
		"all given up":               {"running", []Node{agent("given_up")}, "degraded", "t/s/0 is given up"},
		"a crash loop":               {"running", []Node{looping, agent("running")}, "degraded", "t/s/0 is in a crash loop"},
		"paused":                     {"running", []Node{agent("running"), pausedAgent}, "paused", pausedAgent.Reason},
		"paused, one quarantined":    {"running", []Node{agent("quarantined"), pausedAgent}, "paused", pausedAgent.Reason},
		"a paused supervisor in it":  {"running", []Node{agent("running"), sub("paused")}, "degraded", "t/s/1 is paused"},
		"waits for triggers":         {"running", []Node{idle, agent("stopped")}, "running", ""},
		"its triggers are not heard": {"running", []Node{idleStopped}, "stopped", "nothing in it runs"},
		"its own limit":              {"quarantined", []Node{agent("stopped")}, "quarantined", ""},
		"is stopping":                {"stopping", []Node{agent("stopping"), agent("stopped")}, "stopping", ""},
		"suspended as a whole":       {"suspended", []Node{agent("suspended")}, "suspended", ""},
	} {
		nodes := []Node{{Path: "t/s", Kind: "supervisor", State: tt.own}}
		for i, c := range tt.children {
			c.Path = "t/s/" + string(rune('0'+i))
			nodes = append(nodes, c)
		}
		deriveStates(nodes)
		if nodes[0].State != tt.state || nodes[0].Reason != tt.reason {
			t.Errorf("%s: %s (%s), want %s (%s)", name, nodes[0].State, nodes[0].Reason, tt.state, tt.reason)
		}
	}
}

// What a supervisor is like decides about those above it.
func TestDeriveStatesOfTrees(t *testing.T) {
	nodes := []Node{
		{Path: "t", Kind: "supervisor", State: "running"},
		{Path: "t/a", Kind: "supervisor", State: "running"},
		{Path: "t/a/b", Kind: "supervisor", State: "running"},
		{Path: "t/a/b/x", Kind: "agent", State: "suspended"},
		{Path: "t/a/y", Kind: "agent", State: "stopped"},
		{Path: "t/ab", Kind: "agent", State: "suspended"},
	}
	states := func() (all []string) {
		for _, n := range nodes {
			all = append(all, n.Path+" "+n.State)
		}
		return all
	}
	deriveStates(nodes)
	want := []string{"t suspended", "t/a suspended", "t/a/b suspended", "t/a/b/x suspended", "t/a/y stopped", "t/ab suspended"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i := range nodes[:3] {
		nodes[i].State, nodes[i].Reason = "running", ""
	}
	nodes[3].State = "quarantined"
	deriveStates(nodes)
	want = []string{"t degraded", "t/a degraded", "t/a/b degraded", "t/a/b/x quarantined", "t/a/y stopped", "t/ab suspended"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if nodes[0].Reason != "t/a/b/x is quarantined" {
		t.Errorf("reason of t: %s", nodes[0].Reason)
	}
}
