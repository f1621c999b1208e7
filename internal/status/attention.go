package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/supervisor"
)

// loopOf reports whether an agent ends soon after each start. One that works in runs ends cleanly after each of them:
// an agent of an Aidefile, whose triggers start it again, or a worker of a pipeline.
func loopOf(i supervisor.ChildInfo, inRuns bool) Loop {
	switch i.State {
	case supervisor.Running, supervisor.Starting, supervisor.Restarting:
	default:
		return ""
	}
	switch {
	case i.ShortLived < LoopEnds, i.Reason == supervisor.ReasonRetry: // or it waits for something outside of it
		return ""
	case !i.LastExit.Clean():
		return CrashLoop
	case inRuns:
		return ""
	}
	return CleanLoop
}

// waitsForPerson reports whether a node runs and waits for an answer. What is
// down waits for nothing; its question stays in the inbox.
func waitsForPerson(n Node) bool {
	return n.NeedsInput != nil && n.State == supervisor.Running.String()
}

// waits are what agents may wait for.
type waits struct {
	quotas  []quota.Info
	budgets []budget.Info
	pools   []pools.Pool // whose tasks are paused
}

// attention returns what in a fleet is not well or needs a person, in the order of the nodes.
// serving is whether a daemon runs; without one, commands that need it start it first.
// lastLine returns the last line that an agent wrote.
func attention(
	nodes []Node, config Config, waitsFor waits, serving bool, lastLine func(path string) string,
) []Attention {
	all := []Attention{}
	if config.LastError != "" {
		first, _, _ := strings.Cut(config.LastError, "\n")
		all = append(all, Attention{Path: config.Path, State: Rejected, Reason: first,
			Command: "coppice validate"})
	}
	waiting := map[string]bool{}
	for _, b := range waitsFor.budgets {
		if b.State == budget.Reached {
			all = append(all, budgetAttention(b))
		}
		for _, path := range b.Waiting {
			waiting[path] = true
		}
	}
	for _, p := range waitsFor.pools {
		all = append(all, poolAttention(p))
	}
	for _, q := range waitsFor.quotas {
		if q.Next != "" && len(q.Waiting) == 0 && q.State != quota.Stopped {
			continue // its agents go on with another one
		}
		all = append(all, quotaAttention(q))
		for _, path := range q.Waiting {
			waiting[path] = true
		}
	}
	for _, n := range nodes {
		if waiting[n.Path] { // said of its quota or budget
			continue
		}
		if a, logs, ok := nodeAttention(n, serving); ok {
			a.Path = n.Path
			if logs {
				a.LastOutput = lastLine(n.Path)
			}
			all = append(all, a)
		}
	}
	return all
}

// budgetAttention returns what is wrong with a budget that is reached: one entry for all that waits for it.
func budgetAttention(b budget.Info) Attention {
	a := Attention{
		Path: "budget " + b.Name, State: string(b.State), Command: "coppice budget raise " + shellWord(b.Name),
		Reason: strings.TrimPrefix(b.Reason, "budget "+b.Name+": "),
	}
	switch {
	case len(b.Tasks) > 0:
		a.Reason += "; " + count(len(b.Tasks), "task is parked", "tasks are parked")
	case len(b.Waiting) > 0:
		a.Reason += "; " + count(len(b.Waiting), "agent waits", "agents wait")
	}
	if !b.Until.IsZero() {
		a.NextAt = &b.Until
	}
	return a
}

// poolAttention returns what is wrong with a pool whose tasks are paused.
func poolAttention(p pools.Pool) Attention {
	a := Attention{Path: "tasks of pool " + p.Name, State: string(p.State), Reason: p.Reason,
		Command: "coppice task resume " + shellWord(p.Name)}
	if p.Probe != "" {
		a.Reason, a.Command = "one task is tried, which decides: "+p.Probe, "coppice task show "+p.Probe
	}
	if !p.ProbeAt.IsZero() {
		a.NextAt = &p.ProbeAt
	}
	return a
}

// count returns a number with the words for one or for several.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// quotaAttention returns what is wrong with a quota: one entry for all agents that wait for it.
func quotaAttention(q quota.Info) Attention {
	what := strings.ReplaceAll(q.Obstacle, "_", " ")
	a := Attention{Path: "quota " + q.Name, State: string(q.State), Command: "coppice quota ls",
		Reason: fmt.Sprintf("%s: %s; %s", what, q.Reason, count(len(q.Waiting), "agent waits", "agents wait"))}
	switch q.State {
	case quota.Parked:
		a.NextAt = &q.Until
	case quota.Stopped:
		a.Command = "coppice quota resume " + shellWord(q.Name)
	}
	return a
}

// crashLoop is the state of an agent in the API that fails soon after each start.
const crashLoop = "crash_loop"

// What to say of an agent that does its work, ends and is run again.
const (
	endedCleanly = `it ended with exit code 0; restart = "on-failure" would leave it stopped`
	endsCleanly  = `it keeps ending with exit code 0; restart = "on-failure" would leave it stopped`
)

// nodeAttention returns what is wrong with a node, and the commands that help. logs is
// whether the first of them shows its output.
func nodeAttention(n Node, serving bool) (a Attention, logs, ok bool) {
	a = Attention{State: n.State, Reason: cmp.Or(n.LastExit, n.Reason), NextAt: n.NextAt}
	look, act := investigation(n), ""
	logs = n.TooOftenBy == ""
	switch {
	case n.State == supervisor.Quarantined.String():
		if n.Kind == kindAgent && n.LastExit != "" && !n.Failed {
			a.Reason = endsCleanly
		}
		act = release(n, serving)
	case n.State == supervisor.GivenUp.String():
		a.NextAt, act = nil, release(n, serving)
	case n.State == supervisor.Paused.String():
		if n.Kind != kindSupervisor {
			return Attention{}, false, false // said of its supervisor
		}
		resume := withDaemon("coppice resume "+shellWord(n.Path), serving)
		return Attention{State: n.State, Reason: n.Reason, Command: resume}, false, true
	case n.Kind == kindAgent && waitsForPerson(n):
		answer := withDaemon("coppice answer "+n.NeedsInput.ID, serving)
		return Attention{State: NeedsAnswer, Reason: n.NeedsInput.Text, Command: answer}, false, true
	case n.Loop == CrashLoop:
		a.State = crashLoop
	case n.Loop == CleanLoop:
		a.State, a.Reason = "restart_loop", endsCleanly
	case n.Pipeline && !n.Failed && n.State == supervisor.Restarting.String(): // for the next attempt
		return Attention{}, false, false
	case n.Aide != nil, !serving, n.Kind == kindSupervisor && n.State != supervisor.Restarting.String():
		return Attention{}, false, false
	case n.State == supervisor.Running.String() && n.Vitals != nil && n.Vitals.Unresponsive && !n.Vitals.Waiting:
		a.State, a.Reason = "unresponsive", silence(*n.Vitals)+"; it is restarted unless it reports soon"
	case n.State == supervisor.Running.String():
		if !keepsFailing(n) {
			return Attention{}, false, false
		}
		a.State = "failing"
	default:
		if a.Reason, ok = whyNotRunning(n); !ok {
			return Attention{}, false, false
		}
		if !n.Failed {
			look, logs = "coppice explain "+shellWord(n.Path), false
		}
	}
	if a.Reason == "" {
		a.Reason = n.Reason
	}
	a.Reason = withStarts(a.Reason, n)
	if !serving && n.State == supervisor.Quarantined.String() {
		a.Reason, a.NextAt = a.Reason+"; "+afterUp(n), nil
	}
	a.Command = inTurn(look, act)
	return a, logs, true
}

// slowStart is the time after which a start that is not ready needs attention.
const slowStart = 10 * time.Second

// whyNotRunning returns why an agent that should run does not; ok is false for one that
// is down as it should be.
func whyNotRunning(n Node) (reason string, ok bool) {
	switch n.State {
	case supervisor.Starting.String():
		if n.Failed {
			return n.LastExit, true
		}
		took := seconds(n.Uptime)
		return fmt.Sprintf("not ready after %s", liveness.Brief(took.Round(time.Second))), took >= slowStart
	case supervisor.Restarting.String():
		switch {
		case n.Failed:
			return n.LastExit, true
		case n.ExitKind == supervisor.Normal.String():
			return endedCleanly, true
		}
		return n.Reason, true
	case supervisor.Waiting.String():
		return n.Reason, true
	case supervisor.Stopped.String():
		return n.LastExit, n.Failed && !n.StoppedByHand
	}
	return "", false
}

// keepsFailing reports whether an agent that runs now has failed so often lately that its
// limit will stop it if it goes on like that.
func keepsFailing(n Node) bool {
	return n.Failed && n.LimitMax > 0 && n.LimitCounts == supervisor.CountStarts.String() && n.InWindow > LoopEnds
}

// silence describes how long an agent has been unresponsive.
func silence(v health.Info) string {
	switch {
	case v.HeartbeatTimeout > 0 && v.Heartbeat == nil:
		return fmt.Sprintf("no heartbeat yet (heartbeat_timeout %s)", liveness.Brief(seconds(v.HeartbeatTimeout)))
	case v.HeartbeatTimeout > 0 && *v.Heartbeat >= v.HeartbeatTimeout:
		return fmt.Sprintf("no heartbeat for %s (heartbeat_timeout %s)",
			liveness.Brief(seconds(*v.Heartbeat).Round(time.Second)), liveness.Brief(seconds(v.HeartbeatTimeout)))
	}
	return fmt.Sprintf("no progress for %s (progress_timeout %s)",
		liveness.Brief(seconds(v.ProgressAge).Round(time.Second)), liveness.Brief(seconds(v.ProgressTimeout)))
}

// investigation returns the command that shows why a node keeps ending: its logs, or the
// order that has restarted it too often, of which its logs say nothing.
func investigation(n Node) string {
	if n.TooOftenBy != "" {
		return "coppice order show " + shellWord(n.TooOftenBy)
	}
	return "coppice logs " + shellWord(n.Path)
}

// release returns the command that starts what its limit holds. A quarantine that ends
// with its daemon needs no more than the next one.
func release(n Node, serving bool) string {
	if !serving && n.State == supervisor.Quarantined.String() && n.NextAt == nil {
		return "coppice up -d"
	}
	return withDaemon("coppice reset "+shellWord(n.Path), serving)
}

// withDaemon precedes a command with the start of a daemon where none runs.
func withDaemon(command string, serving bool) string {
	if serving {
		return command
	}
	return inTurn("coppice up -d", command)
}

// inTurn joins two commands, the second of which may be empty.
func inTurn(first, second string) string {
	if second == "" {
		return first
	}
	return first + ", then " + second
}

// afterUp describes what the next daemon does with a quarantined node.
func afterUp(n Node) string {
	if n.NextAt == nil {
		return "the next daemon starts it"
	}
	left := max(0, time.Until(*n.NextAt)).Round(time.Second)
	if left == 0 {
		return "the next daemon starts it"
	}
	return fmt.Sprintf("the next daemon starts it in %s, when its limit has room", liveness.Brief(left))
}

// withStarts adds to the reason of a node how much of its limit is used up.
func withStarts(reason string, n Node) string {
	if n.LimitMax < 0 || n.Starts() == "-" {
		return reason
	}
	return reason + "; " + n.Starts()
}
