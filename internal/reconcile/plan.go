// Package reconcile makes the running fleet match the desired state.
//
// Plan is pure: it compares the desired with the observed state and returns the actions to
// take, in order, each with its reason. Loop makes a pass at an interval and whenever
// something happens, and begins these actions. Observer makes the two states, Orphans finds
// and stops what no agent of the fleet accounts for, and Reloader replaces the desired state
// when the files change.
package reconcile

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Desired is the desired state of an agent, or of a supervisor.
type Desired struct {
	Path string
	// Needs are the paths that must be ready before it starts.
	Needs []string
	// After is the sibling that its supervisor starts before it, and that must have settled;
	// "" if there is none, or the siblings are in no order.
	After string
	// Suspended: it is declared, but must not run.
	Suspended bool
	// Retired: it is no longer in the file, and may finish. It is adopted if it runs, and
	// nothing else: the feature that has retired it stops it.
	Retired bool
	// Instance: it belongs to a pool. The same name elsewhere is another agent.
	Instance bool
	Hash     spec.Hash // of its declaration; a supervisor has none
	// DrainTimeout is how long it may take to finish before a restart because it has drifted;
	// 0: it is restarted at once.
	DrainTimeout time.Duration
}

// Phase is what was observed of a node.
type Phase uint8

const (
	// Unknown: its state is not known, which is never a reason for an action.
	Unknown Phase = iota
	// Pending: it does not run, and only the reconciler starts it.
	Pending
	// Running: it runs and is ready.
	Running
	// Managed: its supervisor starts or stops it, waits for its restart, or its limit holds it.
	Managed
	// Completed: it does not run and must not: a person has stopped it, or it has exited and
	// its restart policy does not restart it.
	Completed
)

func (l Phase) String() string {
	return [...]string{"unknown", "down", "running", "kept", "done"}[l]
}

// Observed is the observed state of a node, desired or not.
type Observed struct {
	Path  string
	Phase Phase
	Ready bool // nodes that need it may start: it runs, or has completed its work
	// Settled: the sibling after it may start: it is ready, or must not run.
	Settled bool
	// Orphan: it runs in a slot of the project, and no supervisor knows it.
	Orphan bool
	// Adoptable: it is Pending for its supervisor only. It was found running, and
	// starting it adopts it.
	Adoptable bool

	// Held: it does not run, because its restart is delayed or its limit is reached.
	Held bool

	// Of an agent that runs or is held.
	Incarnation uint64
	Hash        spec.Hash // of its last start; unknown if it has no fields
	// Of a running agent.
	Requested bool   // it has asked to be restarted
	Request   string // why
	// Idle is the time since its last input or output if that exceeds its idle timeout; else 0.
	Idle     time.Duration
	Asks     bool // it checks whether it is being drained
	Draining bool // it was asked to finish, and what follows is decided
	// RoomAt is when its limit allows one more start; now if it is in the past.
	RoomAt time.Time
}

// InFlight are what is known of rounds before.
type InFlight struct {
	// Busy has the paths of actions in progress, except starts. Nothing is planned for these,
	// nor above or below them.
	Busy map[string]bool
	// Starting has the paths of starts in progress. Only their end is planned, which waits
	// for no start.
	Starting map[string]bool
	// Before has, by path of a removed node, the nodes that depended on it and must be gone
	// first.
	Before map[string][]string
}

// Kind is the kind of an action.
type Kind uint8

const (
	Stop    Kind = iota // what is not desired: at once, and with all in it
	Suspend             // what is declared, but must not run
	Start
	Renew   // stop and start again
	Drain   // ask it to finish, then renew it
	End     // end it as a failure: its supervisor and its limit decide what follows
	Release // start what is held, with fresh counters
)

func (k Kind) String() string {
	return [...]string{"stop", "suspend", "start", "renew", "drain", "end", "release"}[k]
}

// Cause is why a running agent is renewed or ended. The first that applies counts.
type Cause uint8

const (
	NoCause Cause = iota
	Requested
	Idle
	Drifted
)

func (c Cause) String() string {
	return [...]string{"", "restart requested", "idle", "drifted"}[c]
}

// Action is one action of a plan.
type Action struct {
	Kind Kind
	Path string
	// Incarnation is the one to renew, drain or end. Its successor is left alone.
	Incarnation uint64
	Cause       Cause         // of Renew, Drain, End and Release
	Fields      []string      // that have drifted
	Within      time.Duration // of Drain
	// Counted: the start counts for the limit of the agent, because the agent can cause it
	// again and again: by a request, or by writing the files that it reads.
	Counted bool
	Adopt   bool   // of Start: adopt the running incarnation
	Reason  string // for people
}

func (a Action) String() string { return fmt.Sprintf("%v %s: %s", a.Kind, a.Path, a.Reason) }

// Delay is an action that waits.
type Delay struct {
	Path string
	// For is what it waits for; "" if it waits for its limit, until Until.
	For   string
	Until time.Time
	Cause Cause // of a renewal that a limit delays
}

func (d Delay) String() string {
	if d.For != "" {
		return fmt.Sprintf("%s waits for %s", d.Path, d.For)
	}
	return fmt.Sprintf("%s (%v) was started too often and goes on as it is until %s", d.Path, d.Cause,
		d.Until.Format(time.DateTime))
}

// Result is a plan.
type Result struct {
	// Actions are first those on nodes that are not desired, then the others in start order.
	// All of them can be carried out at the same time.
	Actions []Action
	// Delays are the actions that wait, in start order.
	Delays []Delay
	// Next is when there may be more to do although nothing happens; zero if never.
	Next time.Time
}

// Plan compares the desired state, in start order, with the observed state by path. Planning
// again while nothing has happened gives the same result.
func Plan(desired []Desired, observed map[string]*Observed, t InFlight, now time.Time) Result {
	p := planner{observed: observed, t: t, now: now}
	wanted := 0
	for i := range desired {
		if observed[desired[i].Path] != nil {
			wanted++
		}
	}
	if wanted < len(observed) {
		p.orphans(desired)
	}
	p.suspending(desired)
	for i := range desired {
		if d := &desired[i]; d.Retired && !d.Instance {
			p.leaves(d.Path, true)
		}
	}
	p.hold(desired)
	for i := range desired {
		d := &desired[i]
		o := observed[d.Path]
		switch {
		case o == nil, o.Phase == Unknown, p.taken(d.Path):
		case !p.busy(d.Path), d.Suspended && o.Phase != Pending:
			p.node(d, o)
		}
	}
	return p.Result
}

type planner struct {
	observed map[string]*Observed
	t        InFlight
	now      time.Time
	ending   map[string]bool // supervisors that run and must not
	// what is not to run, with what depends on it or on something in it and has to end before it
	later   map[string]string
	whole   map[string]string // supervisors with what depends on them as a whole and has to end before what is in them
	leaving map[string]leaver // what is on its way out, by name
	held    map[string]string // paths of what has the same name, or has such in it, with those paths
	Result
}

// busy reports whether something is being done at a path, above or in it.
func (p *planner) busy(at string) bool {
	return p.taken(at) || anyAbove(p.t.Starting, at)
}

// taken is busy without starts, which can be ended.
func (p *planner) taken(at string) bool { return anyAbove(p.t.Busy, at) }

// anyAbove reports whether a path, or one above it, is in a set.
func anyAbove(set map[string]bool, at string) bool {
	if len(set) == 0 {
		return false
	}
	for ; at != "." && at != "/"; at = path.Dir(at) {
		if set[at] {
			return true
		}
	}
	return false
}

// orphans plans the end of nodes that are not desired. A supervisor ends with all in it.
func (p *planner) orphans(desired []Desired) {
	wanted := make(map[string]bool, len(desired))
	for i := range desired {
		wanted[desired[i].Path] = true
	}
	var orphans []string
	for at := range p.observed {
		if !wanted[at] {
			orphans = append(orphans, at)
			p.leaves(at, false)
		}
	}
	slices.Sort(orphans)
	for _, at := range orphans {
		o := p.observed[at]
		if o.Phase == Unknown || p.taken(at) || p.amongOrphans(at, wanted) {
			continue
		}
		if first := p.first(at); first != "" {
			p.Delays = append(p.Delays, Delay{Path: at, For: "the end of " + first})
			continue
		}
		reason := "it is no longer wanted"
		if o.Orphan {
			reason = "no supervisor knows it"
		}
		p.Actions = append(p.Actions, Action{Kind: Stop, Path: at, Reason: reason})
	}
}

// amongOrphans reports whether a node is below a supervisor that is not desired either.
func (p *planner) amongOrphans(at string, wanted map[string]bool) bool {
	for above := path.Dir(at); above != "." && above != "/"; above = path.Dir(above) {
		if p.observed[above] != nil && !wanted[above] {
			return true
		}
	}
	return false
}

// suspending finds the nodes that run and must not: dependents end first.
func (p *planner) suspending(desired []Desired) {
	for i := range desired {
		d := &desired[i]
		o := p.observed[d.Path]
		if !d.Suspended || o == nil || o.Phase != Running && o.Phase != Managed {
			continue
		}
		if p.ending == nil {
			p.ending, p.later, p.whole = make(map[string]bool), make(map[string]string), make(map[string]string)
		}
		p.ending[d.Path] = true
		for _, need := range d.Needs {
			p.whole[need] = d.Path
			for at := need; at != "." && at != "/" && !strings.HasPrefix(d.Path, at+"/"); at = path.Dir(at) {
				p.later[at] = d.Path
			}
		}
	}
}

func (p *planner) node(d *Desired, o *Observed) {
	switch {
	case o.Phase == Pending && o.Adoptable: // whatever else is to be done: it must be known
		p.Actions = append(p.Actions, Action{Kind: Start, Path: d.Path, Adopt: true,
			Reason: "it runs, and is taken over"})
	case d.Suspended && (o.Phase == Running || o.Phase == Managed && !o.Draining):
		switch {
		case p.within(d.Path): // which ends with that
			return
		case p.later[d.Path] != "":
			p.Delays = append(p.Delays, Delay{Path: d.Path, For: "the end of " + p.later[d.Path]})
			return
		}
		for above := path.Dir(d.Path); above != "." && above != "/"; above = path.Dir(above) {
			if other := p.whole[above]; other != "" {
				p.Delays = append(p.Delays, Delay{Path: d.Path, For: "the end of " + other})
				return
			}
		}
		p.Actions = append(p.Actions, Action{Kind: Suspend, Path: d.Path, Reason: "the file suspends it"})
	case d.Suspended, d.Retired, o.Draining:
	case o.Held:
		p.heldBack(d, o)
	case o.Phase == Pending:
		p.start(d)
	case o.Phase == Running:
		p.running(d, o)
	}
}

func (p *planner) start(d *Desired) {
	if old := p.held[d.Path]; old != "" {
		p.Delays = append(p.Delays, Delay{Path: d.Path, For: "the end of " + old})
		return
	}
	for _, need := range d.Needs {
		if o := p.observed[need]; o == nil || !o.Ready {
			p.Delays = append(p.Delays, Delay{Path: d.Path, For: need})
			return
		}
	}
	if d.After != "" {
		if o := p.observed[d.After]; o == nil || !o.Settled {
			p.Delays = append(p.Delays, Delay{Path: d.Path, For: d.After})
			return
		}
	}
	p.Actions = append(p.Actions, Action{Kind: Start, Path: d.Path, Reason: "it does not run"})
}

// running looks for reasons to renew an agent, the first of which counts.
func (p *planner) running(d *Desired, o *Observed) {
	a := Action{Kind: Renew, Path: d.Path, Incarnation: o.Incarnation}
	switch {
	case o.Requested:
		a.Cause, a.Counted, a.Reason = Requested, true, "it has asked for that"
		if o.Request != "" {
			a.Reason += ": " + o.Request
		}
	case o.Idle > 0:
		// Not held by its limit: it has failed, and what has is its supervisor's.
		p.Actions = append(p.Actions, Action{Kind: End, Path: d.Path, Incarnation: o.Incarnation, Cause: Idle,
			Reason: fmt.Sprintf("idle: no input or output for %v", o.Idle.Round(time.Millisecond))})
		return
	case d.Hash.Sum != o.Hash.Sum:
		a.Fields = d.Hash.Changed(o.Hash)
		if len(a.Fields) == 0 {
			return
		}
		a.Cause, a.Counted, a.Reason = Drifted, spec.OnlyFiles(a.Fields), "drifted: "+fields(a.Fields)
		if o.Asks && d.DrainTimeout > 0 {
			a.Kind, a.Within = Drain, d.DrainTimeout
		}
	default:
		return
	}
	if a.Counted && o.RoomAt.After(p.now) {
		p.Delays = append(p.Delays, Delay{Path: d.Path, Until: o.RoomAt, Cause: a.Cause})
		p.look(o.RoomAt)
		return
	}
	p.Actions = append(p.Actions, a)
}

// heldBack releases an agent that is no longer what has failed.
func (p *planner) heldBack(d *Desired, o *Observed) {
	if d.Hash.Sum == o.Hash.Sum {
		return
	}
	if changed := d.Hash.Changed(o.Hash); len(changed) > 0 {
		p.Actions = append(p.Actions, Action{
			Kind: Release, Path: d.Path, Incarnation: o.Incarnation, Cause: Drifted, Fields: changed,
			Reason: "changed since it failed: " + fields(changed),
		})
	}
}

// look notes when there may be something to do.
func (p *planner) look(at time.Time) {
	if p.Next.IsZero() || at.Before(p.Next) {
		p.Next = at
	}
}

// maxFields are how many fields a reason names.
const maxFields = 5

func fields(all []string) string {
	text := strings.Join(all[:min(len(all), maxFields)], ", ")
	if more := len(all) - maxFields; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return cmp.Or(text, "it is not known what")
}
