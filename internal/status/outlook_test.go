package status

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/supervisor"
)

// TestOutlook checks what explain says in each state: why, what comes next, what to do.
func TestOutlook(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	for _, test := range []struct {
		name     string
		n        Node
		i        supervisor.ChildInfo
		expected string // why | next | do
	}{
		{"always", Node{Restart: "always"}, supervisor.ChildInfo{State: supervisor.Running}, "|it is restarted when it ends|"},
		{"on-failure", Node{Restart: "on-failure"}, supervisor.ChildInfo{State: supervisor.Running},
			"|it is restarted when it fails, and stays stopped when it ends well|"},
		{"never", Node{Restart: "never"}, supervisor.ChildInfo{State: supervisor.Running}, "|it stays stopped when it ends|"},
		{"crash loop that runs", Node{Restart: "always", Loop: CrashLoop}, supervisor.ChildInfo{State: supervisor.Running},
			"|it is restarted when it ends|coppice logs t/a"},
		{"supervisor", Node{Kind: kindSupervisor, Restart: "always"}, supervisor.ChildInfo{State: supervisor.Running}, "||"},
		{"paused supervisor", Node{Kind: kindSupervisor, State: "paused", Reason: "limit reached"}, supervisor.ChildInfo{State: supervisor.Running},
			"limit reached|nothing in it is started until it is resumed|coppice resume t/a"},
		{"drain", Node{Drain: &drain.Info{Left: 90}}, supervisor.ChildInfo{State: supervisor.Running},
			"|it is stopped when it says that it has finished, and in 1m30s in any case|to let it go on: coppice start t/a"},
		{"starting", Node{}, supervisor.ChildInfo{State: supervisor.Starting}, "|it runs as soon as it is ready, or fails at its start timeout|coppice logs t/a"},
		{"stopping", Node{}, supervisor.ChildInfo{State: supervisor.Stopping}, "|it is killed if it has not ended within its shutdown time|"},
		{"backoff", Node{Reason: "it always restarts"}, supervisor.ChildInfo{State: supervisor.Restarting, NextAt: soon},
			"it always restarts|it is started again in T|coppice logs t/a; to start it now: coppice start t/a"},
		{"in turn", Node{Reason: "waits for its turn after t/b"}, supervisor.ChildInfo{State: supervisor.Waiting},
			"waits for its turn after t/b|it is started after the siblings that come before it|coppice tree t"},
		{"quarantined", Node{Reason: "limit"}, supervisor.ChildInfo{State: supervisor.Quarantined, NextAt: soon},
			"limit|it is started again in T, when its limit has room|coppice logs t/a; to start it now, with fresh counters: coppice reset t/a"},
		{"given up", Node{Reason: "limit"}, supervisor.ChildInfo{State: supervisor.GivenUp}, "limit|it stays down until it is reset|coppice logs t/a, then coppice reset t/a"},
		{"paused", Node{Reason: "limit"}, supervisor.ChildInfo{State: supervisor.Paused}, "limit|it is started when its supervisor is resumed|coppice resume t"},
		{"by hand", Node{Reason: "stopped on request"}, supervisor.ChildInfo{State: supervisor.Suspended, Reason: supervisor.ReasonTerminated},
			"it was stopped by hand|it stays stopped until it is started, also by the next daemon|coppice start t/a"},
		{"ended well", Node{Reason: "ended well"}, supervisor.ChildInfo{State: supervisor.Stopped, Reason: supervisor.ReasonTransientClean},
			"ended well|it stays stopped|to run it again: coppice start t/a"},
		{"ended for good", Node{Reason: "it never restarts"}, supervisor.ChildInfo{State: supervisor.Stopped, Reason: supervisor.ReasonTemporary},
			"it never restarts|it stays stopped|to run it again: coppice start t/a"},
		{"about to be started", Node{Reason: "has yet to be started"}, supervisor.ChildInfo{State: supervisor.Stopped, Reason: supervisor.ReasonDeferred},
			"has yet to be started||coppice start t/a"},
	} {
		test.n.Path = "t/a"
		if test.n.Kind == "" {
			test.n.Kind = kindAgent
		}
		why, next, do := outlook(test.n, test.i)
		got := regexp.MustCompile(`\b(1h0m0s|59m\S+s)`).ReplaceAllString(strings.Join([]string{why, next, do}, "|"), "T")
		if got != test.expected {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.expected)
		}
	}
}

// TestAddStanding checks that what the patrol knows is said where it is more than the
// supervisor of a node knows, and only then.
func TestAddStanding(t *testing.T) {
	now := time.Now()
	later, left := now.Add(90*time.Second), 61.0
	for _, test := range []struct {
		name     string
		x        Explanation
		p        Standing
		expected string // why | evidence | next
	}{
		{"as declared", Explanation{Next: "it ends"}, Standing{Wanted: "run", Observed: "running", Known: true, NextRound: &later}, "||it ends"},
		{"ended", Explanation{Rule: "it never restarts", Next: "it stays stopped"}, Standing{Wanted: "run", Observed: "done"}, "it never restarts||it stays stopped"},
		{"drifted", Explanation{}, Standing{Wanted: "run", Observed: "running", Drifted: []string{"env.A", "command"}, Action: "renew", Reason: "drifted: env.A, command"},
			"|it does not run as the file says now: env.A, command|it is restarted now: drifted: env.A, command"},
		{"drifted, no room", Explanation{}, Standing{Wanted: "run", Observed: "running", Drifted: []string{"dir"}, HeldUntil: &later},
			"|it does not run as the file says now: dir|it is restarted as the file says in 1m30s, when its limit has room"},
		{"quarantined", Explanation{Next: "in 1h"}, Standing{Wanted: "run", Observed: "kept", HeldUntil: &later}, "||in 1h"},
		{"idle", Explanation{Next: "it ends"}, Standing{Wanted: "run", Observed: "running", IdleLeft: &left}, "||it is killed in 1m1s unless it reads or writes something first"},
		{"waits", Explanation{Node: Node{WaitsFor: "t/b"}, Rule: "waits for t/b"}, Standing{Wanted: "run", Observed: "down", WaitsFor: []string{"t/b", "t/c"}},
			"waits for t/b|it waits for t/c|it is started as soon as t/b is ready"},
		{"busy", Explanation{}, Standing{Wanted: "run", Observed: "down", Busy: true}, "||it is being started"},
		{"suspended", Explanation{}, Standing{Wanted: "suspend", Why: "the file suspends it", Observed: "running", Action: "suspend"}, "the file suspends it||it is stopped now"},
		{"retired", Explanation{}, Standing{Wanted: "finish", Why: "the file does not have it", Observed: "running"}, "the file does not have it||"},
	} {
		addStanding(&test.x, &test.p, now)
		if got := strings.Join([]string{test.x.Rule, strings.Join(test.x.Evidence, "; "), test.x.Next}, "|"); got != test.expected {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.expected)
		}
	}
}
