package status

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestNodeAttention checks what is said of a node in each state, with a daemon and
// without one. What is as it should be is not mentioned.
func TestNodeAttention(t *testing.T) {
	soon, failed := time.Now().Add(30*time.Minute+time.Second/2), "exit code 1"
	limited := func(n Node, counted int) Node {
		n.SetLimit(supervisor.Quarantining(5, time.Hour), counted)
		return n
	}
	age := 70.0
	for _, c := range []struct {
		name    string
		node    Node
		offline bool
		want    string
	}{
		{name: "runs", node: Node{State: "running"}},
		{name: "starts", node: Node{State: "starting", Uptime: 2}},
		{name: "starts slowly", node: Node{State: "starting", Uptime: 34}, want: "starting: not ready after 34s -> coppice explain t/a"},
		{name: "starts again", node: Node{State: "starting", Failed: true, LastExit: failed}, want: "starting: exit code 1 -> coppice logs t/a"},
		{name: "waits for its restart", node: Node{State: "restarting", Failed: true, LastExit: failed, NextAt: &soon},
			want: "restarting: exit code 1 -> coppice logs t/a (next)"},
		{name: "waits for its restart, and had completed", node: Node{State: "restarting", LastExit: "normal", ExitKind: "normal", NextAt: &soon},
			want: `restarting: it ended with exit code 0; restart = "on-failure" would leave it stopped -> coppice explain t/a (next)`},
		{name: "is a worker, and starts for the next attempt",
			node: Node{Pipeline: true, State: "restarting", LastExit: "normal", ExitKind: "normal", NextAt: &soon}},
		{name: "is a worker that fails", node: Node{Pipeline: true, State: "restarting", Failed: true, LastExit: failed,
			NextAt: &soon}, want: "restarting: exit code 1 -> coppice logs t/a (next)"},
		{name: "waits for another", node: Node{State: "waiting", Reason: "waits for t/db"}, want: "waiting: waits for t/db -> coppice explain t/a"},
		{name: "has failed again and again", node: limited(Node{State: "running", Failed: true, LastExit: "idle: no input or output for 40s"}, 4),
			want: "failing: idle: no input or output for 40s; 4/5 starts in 1h -> coppice logs t/a"},
		{name: "has failed before", node: limited(Node{State: "running", Failed: true, LastExit: failed}, 2)},
		{name: "is silent", node: Node{State: "running", Vitals: &health.Info{Unresponsive: true, HeartbeatTimeout: 60, Heartbeat: &age}},
			want: "unresponsive: no heartbeat for 1m10s (heartbeat_timeout 1m); it is restarted unless it reports soon -> coppice logs t/a"},
		{name: "has never reported", node: Node{State: "running", Vitals: &health.Info{Unresponsive: true, HeartbeatTimeout: 60}},
			want: "unresponsive: no heartbeat yet (heartbeat_timeout 1m); it is restarted unless it reports soon -> coppice logs t/a"},
		{name: "makes no progress", node: Node{State: "running", Vitals: &health.Info{Unresponsive: true, ProgressTimeout: 60, ProgressAge: 90}},
			want: "unresponsive: no progress for 1m30s (progress_timeout 1m); it is restarted unless it reports soon -> coppice logs t/a"},
		{name: "has done its work", node: Node{State: "stopped", LastExit: "normal", ExitKind: "normal"}},
		{name: "has failed for good", node: Node{State: "stopped", Failed: true, LastExit: failed}, want: "stopped: exit code 1 -> coppice logs t/a"},
		{name: "was stopped by hand", node: Node{State: "stopped", Failed: true, StoppedByHand: true}},
		{name: "is one too many in its pool", node: Node{State: "stopping", Reason: "its pool wants fewer instances"}},
		{name: "is suspended", node: Node{State: "suspended"}},
		{name: "waits for its trigger", node: Node{State: "waiting", Aide: &trigger.Info{}}},
		{name: "is quarantined", node: Node{State: "quarantined", Failed: true, LastExit: failed, NextAt: &soon},
			want: "quarantined: exit code 1 -> coppice logs t/a, then coppice reset t/a (next)"},
		{name: "is quarantined for an order", node: Node{State: "quarantined", Failed: true, LastExit: (&agent.TooOftenError{Order: "night shift"}).Error(), TooOftenBy: "night shift"},
			want: "quarantined: started too often by order night shift -> coppice order show 'night shift', then coppice reset t/a"},
		{name: "is quarantined, without a daemon", offline: true, node: Node{State: "quarantined", Failed: true, LastExit: failed, NextAt: &soon},
			want: "quarantined: exit code 1; the next daemon starts it in 30m, when its limit has room -> coppice logs t/a, then coppice up -d, then coppice reset t/a"},
		{name: "was quarantined by the last daemon", offline: true, node: Node{State: "quarantined", Failed: true, LastExit: failed},
			want: "quarantined: exit code 1; the next daemon starts it -> coppice logs t/a, then coppice up -d"},
		{name: "was given up, without a daemon", offline: true, node: Node{State: "given_up", Failed: true, LastExit: failed},
			want: "given_up: exit code 1 -> coppice logs t/a, then coppice up -d, then coppice reset t/a"},
		{name: "asks, without a daemon", offline: true, node: Node{State: "running", NeedsInput: &NeedsInput{ID: "q-1", Text: "yes?"}},
			want: "needs_input: yes? -> coppice up -d, then coppice answer q-1"},
		{name: "has failed, without a daemon", offline: true, node: Node{State: "stopped", Failed: true, LastExit: failed}},
	} {
		c.node.Path, c.node.Kind = "t/a", kindAgent
		if c.node.Limit == "" {
			c.node.LimitMax = supervisor.Unlimited
		}
		got := ""
		a, logs, ok := nodeAttention(c.node, !c.offline)
		if logs != strings.HasPrefix(a.Command, "coppice logs ") {
			t.Errorf("%s: logs %v, but %s", c.name, logs, a.Command)
		}
		if ok {
			got = a.State + ": " + a.Reason + " -> " + a.Command
			if a.NextAt != nil {
				got += " (next)"
			}
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestRejectedFile checks that a file that was rejected needs attention.
func TestRejectedFile(t *testing.T) {
	rejected := attention(nil, Config{Path: "/x/coppice.toml", LastError: "coppice.toml:7:1: unknown key\nand more"}, waits{}, true, nil)
	if len(rejected) != 1 || rejected[0] != (Attention{Path: "/x/coppice.toml", State: "rejected", Reason: "coppice.toml:7:1: unknown key", Command: "coppice validate"}) {
		t.Errorf("a rejected file: %+v", rejected)
	}
}
