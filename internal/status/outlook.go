package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// outlook says why a child is in its state, what happens next, and what a person can
// do. Each is empty where there is nothing to say.
func outlook(n Node, i supervisor.ChildInfo) (why, next, do string) {
	why = n.Reason
	if n.Drain != nil {
		left := seconds(n.Drain.Left).Round(time.Second)
		return why, fmt.Sprintf("it is stopped when it says that it has finished, and in %s in any case",
				liveness.Brief(left)),
			"to let it go on: coppice start " + n.Path
	}
	look := investigation(n)
	switch i.State {
	case supervisor.Running:
		if n.Kind == kindAgent {
			why = "" // that of its start
		}
		return why, whenItEnds(n), pausedHint(n)
	case supervisor.Starting:
		return why, "it runs as soon as it is ready, or fails at its start timeout", look
	case supervisor.Stopping:
		return why, "it is killed if it has not ended within its shutdown time", ""
	case supervisor.Restarting:
		if i.Reason == supervisor.ReasonRetry {
			if _, ok := errors.AsType[*budget.WaitError](i.LastExit.Err); ok {
				next = fmt.Sprintf("it tries again in %v, or earlier if its budget has room; no limit counts this",
					until(i))
				return why, next, "coppice budget ls"
			}
			next = fmt.Sprintf("it tries again in %v, or earlier if its quota opens; no limit counts this", until(i))
			return why, next, "coppice quota ls"
		}
		return why, fmt.Sprintf("it is started again in %v", until(i)),
			look + "; to start it now: coppice start " + n.Path
	case supervisor.Waiting:
		if reconcile.PhaseOf(&i) == reconcile.Pending { // for addStanding
			return why, "", ""
		}
		return why, "it is started after the siblings that come before it", "coppice tree " + parent(n.Path)
	case supervisor.Quarantined:
		return why, fmt.Sprintf("it is started again in %v, when its limit has room", until(i)),
			look + "; to start it now, with fresh counters: " + release(n, true)
	case supervisor.GivenUp:
		return why, "it stays down until it is reset", inTurn(look, release(n, true))
	case supervisor.Paused:
		return why, "it is started when its supervisor is resumed", "coppice resume " + parent(n.Path)
	}
	return staysDown(n, i)
}

// staysDown is outlook for what does not run, with nothing pending: it was stopped by
// hand, has ended for good, or is about to be started.
func staysDown(n Node, i supervisor.ChildInfo) (why, next, do string) {
	switch {
	case journal.Suspended(i.State, i.Reason):
		return n.Reason, "it is started when it is resumed", "coppice resume " + n.Path
	case i.State == supervisor.Suspended && i.Reason == supervisor.ReasonTerminated:
		return "it was stopped by hand", "it stays stopped until it is started, also by the next daemon",
			"coppice start " + n.Path
	case i.State == supervisor.Suspended:
		return n.Reason, "it stays stopped until it is started, also by the next daemon", "coppice start " + n.Path
	case reconcile.PhaseOf(&i) == reconcile.Pending: // for addStanding
		return n.Reason, "", "coppice start " + n.Path
	}
	return n.Reason, "it stays stopped", "to run it again: coppice start " + n.Path
}

// whenItEnds returns what becomes of something that runs.
func whenItEnds(n Node) string {
	switch {
	case n.State == supervisor.Paused.String():
		return "nothing in it is started until it is resumed"
	case n.Kind != kindAgent:
		return ""
	}
	switch n.Restart {
	case supervisor.Permanent.String():
		return "it is restarted when it ends"
	case supervisor.Transient.String():
		return "it is restarted when it fails, and stays stopped when it ends well"
	case supervisor.Temporary.String():
		return "it stays stopped when it ends"
	}
	return ""
}

// pausedHint returns what a person can do about something that runs.
func pausedHint(n Node) string {
	switch {
	case n.State == supervisor.Paused.String():
		return "coppice resume " + n.Path
	case n.Loop != "":
		return "coppice logs " + n.Path
	}
	return ""
}

// evidence returns what the last decision about a child was taken on.
func evidence(sup string, n Node, i supervisor.ChildInfo) (e []string) {
	switch {
	case n.Loop != "":
		e = append(e, fmt.Sprintf("each of its last %d starts ended soon; its last exit: %v", i.ShortLived, i.LastExit))
	case i.LastExit.Kind == supervisor.Normal && i.Reason == supervisor.ReasonTransientClean: // the reason says so
	case i.LastExit.Kind == supervisor.Normal:
		e = append(e, "its last exit: completed")
	case i.LastExit.Kind != supervisor.NoExit && i.LastExit.Kind != supervisor.ShutDown:
		e = append(e, fmt.Sprintf("its last exit: %v", i.LastExit))
	}
	if i.Limit.Max >= 0 && i.Limit.Scope == supervisor.ScopeSupervisor {
		var shared Node
		shared.SetLimit(i.Limit, i.InWindow)
		e = append(e, fmt.Sprintf("its restarts count for the limit of %s: %s, then %s", sup, shared.Starts(),
			strings.ReplaceAll(i.Limit.OnLimit.String(), "_", " ")))
	}
	return e
}

// planned holds the actions of the patrol as what happens next.
var planned = map[string]string{
	reconcile.Stop.String(): "it is stopped now", reconcile.Suspend.String(): "it is stopped now",
	reconcile.Start.String():   "it is started now",
	reconcile.Renew.String():   "it is restarted now",
	reconcile.Drain.String():   "it is asked to finish now, and restarted then",
	reconcile.End.String():     "it is ended now, which counts as a failure",
	reconcile.Release.String(): "it is started now",
}

// addStanding adds to an explanation what the patrol makes of the node, where that says
// more than its supervisor knows.
func addStanding(x *Explanation, p *Standing, now time.Time) {
	if p.Wanted != "run" && x.Rule == "" {
		x.Rule = p.Why
	}
	if len(p.Drifted) > 0 {
		x.Evidence = append(x.Evidence, "it does not run as the file says now: "+strings.Join(p.Drifted, ", "))
	}
	waits := slices.DeleteFunc(slices.Clone(p.WaitsFor), func(path string) bool { return path == x.Node.WaitsFor })
	if len(waits) > 0 {
		x.Evidence = append(x.Evidence, "it waits for "+strings.Join(waits, ", "))
	}
	switch {
	case p.Busy && p.Observed == reconcile.Pending.String():
		x.Next = "it is being started"
	case p.Busy && p.Wanted == "run":
		x.Next = "it is being restarted"
	case p.Busy:
		x.Next = "it is being stopped"
	case p.Action != "":
		x.Next = planned[p.Action]
		if p.Reason != "" {
			x.Next += ": " + p.Reason
		}
	case len(p.Drifted) > 0 && p.HeldUntil != nil:
		x.Next = fmt.Sprintf("it is restarted as the file says in %s, when its limit has room",
			liveness.Brief(max(0, p.HeldUntil.Sub(now)).Round(time.Second)))
	case len(p.WaitsFor) > 0 && x.Next == "":
		x.Next = fmt.Sprintf("it is started as soon as %s is ready", p.WaitsFor[0])
	case p.IdleLeft != nil:
		left := liveness.Brief(seconds(*p.IdleLeft).Round(time.Second))
		x.Next = fmt.Sprintf("it is killed in %s unless it reads or writes something first", left)
	}
}

// seconds returns a number of seconds as a duration.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
