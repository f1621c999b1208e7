package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestAttention checks that the status names each agent that needs a person,
// and no other.
func TestAttention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/q", part{lives: time.Second})
		s.plays("t/qc", part{lives: time.Second, exit: supervisor.Exit{Kind: supervisor.Normal}})
		s.plays("t/g", part{lives: time.Second})
		s.plays("t/crash", part{lives: 10 * time.Second})
		s.plays("t/clean", part{lives: 10 * time.Second, exit: supervisor.Exit{Kind: supervisor.Normal}})
		s.plays("t/slow", part{lives: 2 * time.Minute})
		s.plays("t/p/a", part{lives: time.Second})
		tree := treeOf(t, "q", "qc", "g", "crash", "clean", "slow", "well", "p(a b)")
		edited(t, tree, "q", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) })
		edited(t, tree, "qc", func(a *spec.Agent) { a.Limit = supervisor.Quarantining(2, time.Hour) })
		edited(t, tree, "g", func(a *spec.Agent) { a.Limit = supervisor.GivingUp(1) })
		edited(t, tree, "a", func(a *spec.Agent) { a.Limit = supervisor.Limit{} })
		tree.Root.Limit = supervisor.Limit{Max: supervisor.Unlimited}
		for _, c := range tree.Root.Children {
			if c.Node != nil {
				c.Node.Limit = supervisor.Pausing(1, time.Hour)
			}
		}
		p := raise(t, s, memory.New(), tree)
		defer p.close()
		time.Sleep(35 * time.Second) // three ends of those that live for 10 s
		st, err := p.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"t/q quarantined: exit code 1; 2/2 starts in 1h -> coppice logs t/q, then coppice reset t/q",
			`t/qc quarantined: it keeps ending with exit code 0; restart = "on-failure" would leave it stopped; 2/2 starts in 1h -> coppice logs t/qc, then coppice reset t/qc`,
			"t/g given_up: exit code 1; 1/1 restarts in a row -> coppice logs t/g, then coppice reset t/g",
			"t/crash crash_loop: exit code 1 -> coppice logs t/crash",
			`t/clean restart_loop: it keeps ending with exit code 0; restart = "on-failure" would leave it stopped -> coppice logs t/clean`,
			"t/p paused: limit reached, paused until resumed -> coppice resume t/p",
		}
		var got []string
		for _, a := range st.Attention {
			got = append(got, a.Path+" "+a.State+": "+a.Reason+" -> "+a.Command)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := st.Summary; n["crash_loop"] != 1 || n["quarantined"] != 2 || n["running"] != 4 {
			t.Errorf("summary: %v", n)
		}
		for path, want := range map[string]api.Loop{"t/crash": api.CrashLoop, "t/clean": api.CleanLoop, "t/slow": "", "t/well": "", "t/q": ""} {
			if nodes, err := p.Nodes(context.Background(), path); err != nil || nodes[0].Loop != want {
				t.Errorf("%s: loop %q, want %q (%v)", path, nodes[0].Loop, want, err)
			}
		}
		rejected := attention(nil, api.Config{Path: "/x/coppice.toml", LastError: "coppice.toml:7:1: unknown key\nand more"}, true)
		if len(rejected) != 1 || rejected[0] != (api.Attention{Path: "/x/coppice.toml", State: "rejected", Reason: "coppice.toml:7:1: unknown key", Command: "coppice validate"}) {
			t.Errorf("a rejected file: %+v", rejected)
		}
	})
}

// TestNodeAttention checks what is said of a node in each state, with a daemon and
// without one. What is as it should be is not mentioned.
func TestNodeAttention(t *testing.T) {
	soon, failed := time.Now().Add(30*time.Minute+time.Second/2), "exit code 1"
	limited := func(n api.Node, counted int) api.Node {
		n.SetLimit(supervisor.Quarantining(5, time.Hour), counted)
		return n
	}
	age := 70.0
	for _, c := range []struct {
		name    string
		node    api.Node
		offline bool
		want    string
	}{
		{name: "runs", node: api.Node{State: "running"}},
		{name: "starts", node: api.Node{State: "starting", Uptime: 2}},
		{name: "starts slowly", node: api.Node{State: "starting", Uptime: 34}, want: "starting: not ready after 34s -> coppice explain t/a"},
		{name: "starts again", node: api.Node{State: "starting", Failed: true, LastExit: failed}, want: "starting: exit code 1 -> coppice logs t/a"},
		{name: "waits for its restart", node: api.Node{State: "restarting", Failed: true, LastExit: failed, NextAt: &soon},
			want: "restarting: exit code 1 -> coppice logs t/a (next)"},
		{name: "waits for its restart, and had completed", node: api.Node{State: "restarting", LastExit: "normal", NextAt: &soon},
			want: `restarting: it ended with exit code 0; restart = "on-failure" would leave it stopped -> coppice explain t/a (next)`},
		{name: "waits for another", node: api.Node{State: "waiting", Reason: "waits for t/db"}, want: "waiting: waits for t/db -> coppice explain t/a"},
		{name: "has failed again and again", node: limited(api.Node{State: "running", Failed: true, LastExit: "idle: no input or output for 40s"}, 4),
			want: "failing: idle: no input or output for 40s; 4/5 starts in 1h -> coppice logs t/a"},
		{name: "has failed before", node: limited(api.Node{State: "running", Failed: true, LastExit: failed}, 2)},
		{name: "is silent", node: api.Node{State: "running", Vitals: &api.Vitals{Unresponsive: true, HeartbeatTimeout: 60, Heartbeat: &age}},
			want: "unresponsive: no heartbeat for 1m10s (heartbeat_timeout 1m); it is restarted unless it reports soon -> coppice logs t/a"},
		{name: "has never reported", node: api.Node{State: "running", Vitals: &api.Vitals{Unresponsive: true, HeartbeatTimeout: 60}},
			want: "unresponsive: no heartbeat yet (heartbeat_timeout 1m); it is restarted unless it reports soon -> coppice logs t/a"},
		{name: "makes no progress", node: api.Node{State: "running", Vitals: &api.Vitals{Unresponsive: true, ProgressTimeout: 60, ProgressAge: 90}},
			want: "unresponsive: no progress for 1m30s (progress_timeout 1m); it is restarted unless it reports soon -> coppice logs t/a"},
		{name: "has done its work", node: api.Node{State: "stopped", LastExit: "normal"}},
		{name: "has failed for good", node: api.Node{State: "stopped", Failed: true, LastExit: failed}, want: "stopped: exit code 1 -> coppice logs t/a"},
		{name: "was stopped by hand", node: api.Node{State: "stopped", Failed: true, StoppedByHand: true}},
		{name: "is one too many in its pool", node: api.Node{State: "stopping", Reason: "its pool wants fewer instances"}},
		{name: "is suspended", node: api.Node{State: "suspended"}},
		{name: "waits for its trigger", node: api.Node{State: "waiting", Aide: &api.Aide{}}},
		{name: "is quarantined", node: api.Node{State: "quarantined", Failed: true, LastExit: failed, NextAt: &soon},
			want: "quarantined: exit code 1 -> coppice logs t/a, then coppice reset t/a (next)"},
		{name: "is quarantined for an order", node: api.Node{State: "quarantined", Failed: true, LastExit: tooOften("night shift").Error()},
			want: "quarantined: started too often by order night shift -> coppice order show 'night shift', then coppice reset t/a"},
		{name: "is quarantined, without a daemon", offline: true, node: api.Node{State: "quarantined", Failed: true, LastExit: failed, NextAt: &soon},
			want: "quarantined: exit code 1; the next daemon starts it in 30m, when its limit has room -> coppice logs t/a, then coppice up -d, then coppice reset t/a"},
		{name: "was quarantined by the last daemon", offline: true, node: api.Node{State: "quarantined", Failed: true, LastExit: failed},
			want: "quarantined: exit code 1; the next daemon starts it -> coppice logs t/a, then coppice up -d"},
		{name: "was given up, without a daemon", offline: true, node: api.Node{State: "given_up", Failed: true, LastExit: failed},
			want: "given_up: exit code 1 -> coppice logs t/a, then coppice up -d, then coppice reset t/a"},
		{name: "asks, without a daemon", offline: true, node: api.Node{State: "running", NeedsInput: &api.NeedsInput{ID: "q-1", Text: "yes?"}},
			want: "needs_input: yes? -> coppice up -d, then coppice answer q-1"},
		{name: "has failed, without a daemon", offline: true, node: api.Node{State: "stopped", Failed: true, LastExit: failed}},
	} {
		c.node.Path, c.node.Kind = "t/a", kindAgent
		if c.node.Limit == "" {
			c.node.LimitMax = supervisor.Unlimited
		}
		got := ""
		if a, ok := nodeAttention(c.node, !c.offline); ok {
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

// TestNeedsInput checks that agents that run and wait for an answer are counted,
// and neither those that are down, whose questions stay in the inbox, nor
// supervisors that their limit has paused.
func TestNeedsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		p := raise(t, s, memory.New(), pausingTree(t))
		defer p.close()
		ctx := context.Background()
		want := func(when string, agents, questions int) {
			t.Helper()
			time.Sleep(time.Second)
			st, err := p.Status(ctx)
			if err != nil || st.NeedsInput != agents || st.Inbox.Questions != questions {
				t.Errorf("%s: %d agents need input, %d questions (%v), want %d and %d", when, st.NeedsInput, st.Inbox.Questions, err, agents, questions)
			}
			waiting := 0
			for _, a := range st.Attention {
				if a.State == "needs_input" {
					waiting++
				}
			}
			if waiting != agents {
				t.Errorf("%s: the status names %d: %+v", when, waiting, st.Attention)
			}
		}
		for _, path := range []string{"t/well", "t/p/b"} {
			for _, text := range []string{"one", "two"} {
				if _, _, err := p.questions.Ask(ctx, question.Draft{From: path, Incarnation: 1, Text: text}); err != nil {
					t.Fatal(err)
				}
			}
		}
		want("two agents ask", 2, 4)
		if _, err := p.Act(ctx, "t/well", api.Stop); err != nil {
			t.Fatal(err)
		}
		want("one is stopped", 1, 4)
		s.on("t/p/a").end(supervisor.Exit{Kind: supervisor.Failure})
		want("their supervisor is paused", 1, 5)
		if _, err := p.Act(ctx, "t/well", api.Start); err != nil {
			t.Fatal(err)
		}
		want("and started", 2, 5)
	})
}
