package daemon

import (
	"cmp"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/supervisor"
)

// loopOf reports whether an agent ends soon after each start. An agent of an
// Aidefile ends cleanly after each run, and its triggers start it again.
func loopOf(i supervisor.ChildInfo, triggered bool) api.Loop {
	switch i.State {
	case supervisor.Running, supervisor.Starting, supervisor.Restarting:
	default:
		return ""
	}
	switch {
	case i.ShortLived < api.LoopEnds:
		return ""
	case !i.LastExit.Clean():
		return api.CrashLoop
	case triggered:
		return ""
	}
	return api.CleanLoop
}

// waitsForPerson reports whether a node runs and waits for an answer. What is
// down waits for nothing; its question stays in the inbox.
func waitsForPerson(n api.Node) bool {
	return n.NeedsInput != nil && n.State == supervisor.Running.String()
}

// attention returns what in a fleet needs a person, in the order of the nodes.
func attention(nodes []api.Node, config api.Config) []api.Attention {
	all := []api.Attention{}
	if config.LastError != "" {
		first, _, _ := strings.Cut(config.LastError, "\n")
		all = append(all, api.Attention{Path: config.Path, State: "rejected", Reason: first, Command: "coppice validate"})
	}
	for _, n := range nodes {
		if a, ok := nodeAttention(n); ok {
			a.Path = n.Path
			all = append(all, a)
		}
	}
	return all
}

// endsCleanly is the reason where an agent does its work and is run again and again.
const endsCleanly = `it keeps ending with exit code 0; restart = "on-failure" would leave it stopped`

func nodeAttention(n api.Node) (api.Attention, bool) {
	last := cmp.Or(n.LastExit, n.Reason)
	switch n.State {
	case supervisor.Quarantined.String():
		reason := last
		if n.Kind == kindAgent && n.LastExit != "" && !n.Failed {
			reason = endsCleanly
		}
		reason = withStarts(reason, n)
		return api.Attention{State: n.State, Reason: reason, NextAt: n.NextAt, Command: "coppice logs " + n.Path + ", then coppice reset " + n.Path}, true
	case supervisor.GivenUp.String():
		return api.Attention{State: n.State, Reason: withStarts(last, n), Command: "coppice logs " + n.Path + ", then coppice reset " + n.Path}, true
	case supervisor.Paused.String():
		if n.Kind == kindSupervisor {
			return api.Attention{State: n.State, Reason: n.Reason, Command: "coppice resume " + n.Path}, true
		}
		return api.Attention{}, false // said of its supervisor
	}
	switch {
	case n.Kind == kindAgent && waitsForPerson(n):
		return api.Attention{State: "needs_input", Reason: n.NeedsInput.Text, Command: "coppice answer " + n.NeedsInput.ID}, true
	case n.Loop == api.CrashLoop:
		return api.Attention{State: "crash_loop", Reason: withStarts(last, n), NextAt: n.NextAt, Command: "coppice logs " + n.Path}, true
	case n.Loop == api.CleanLoop:
		return api.Attention{State: "restart_loop", Reason: withStarts(endsCleanly, n), NextAt: n.NextAt, Command: "coppice logs " + n.Path}, true
	}
	return api.Attention{}, false
}

// withStarts adds to the reason of a node how much of its limit is used up.
func withStarts(reason string, n api.Node) string {
	if n.LimitMax < 0 {
		return reason
	}
	return reason + "; " + n.Starts()
}
