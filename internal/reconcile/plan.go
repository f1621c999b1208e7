// Package reconcile makes the running fleet match the desired state.
//
// Plan is pure: it compares the desired with the observed state and returns the actions to
// take, in order, each with its reason. Loop makes a pass at an interval and whenever
// something happens, and begins these actions. Orphans finds and stops what no agent of the
// fleet accounts for, and Reloader replaces the desired state when the files change.
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

// Desired is an agent, or a supervisor with all in it, that is wanted.
type Desired struct {
	Path string
	// Needs are the paths of what has to be ready before it begins.
	Needs []string
	// After is the sibling that its supervisor starts before it; "" if there is
	// none, or they are in no order. It has to have settled.
	After string
	// Suspended: it is wanted, but not to run.
	Suspended bool
	// Retired: the file has it no more, and it may finish. It is taken over if it
	// lives, and nothing else: who retires it ends it.
	Retired bool
	// Instance: it is one of a pool. Only in that its name is the same agent's.
	Instance bool
	Hash     spec.Hash // as it is to run; of a supervisor none
	// DrainTimeout is how long it may take to finish, once it is asked to
	// because it is not as declared any more; 0: it is not asked.
	DrainTimeout time.Duration
}

// Phase is what was observed of a node.
type Phase uint8

const (
	// Unknown: it cannot be told. Never a reason to do anything.
	Unknown Phase = iota
	// Pending: it does not run, and nobody but the patrol will start it.
	Pending
	// Running: it runs and is ready.
	Running
	// Managed: its supervisor takes care of it: it is being started or stopped,
	// waits for its restart, or is held by a limit.
	Managed
	// Completed: it does not run and is not to: a person has stopped it, or it
	// ended and its restart policy leaves it at that.
	Completed
)

func (l Phase) String() string {
	return [...]string{"unknown", "down", "running", "kept", "done"}[l]
}

// Observed is what was observed of a node, wanted or not.
type Observed struct {
	Path  string
	Phase Phase
	Ready bool // what needs it may begin: it runs, or has done what it was for
	// Settled: what comes after it may begin: it is ready, or not to run.
	Settled bool
	// Orphan: it runs in a slot of the project, and no supervisor knows it.
	Orphan bool
	// Adoptable: it is Pending for its supervisor only. It was found running, and
	// starting it adopts it.
	Adoptable bool

	// Held: it does not run, as its restart is delayed or its limit is reached.
	Held bool

	// Of an agent that runs or is held.
	Incarnation uint64
	Hash        spec.Hash // as it was started last; unknown if it has no parts
	// Of a running agent.
	Requested bool   // it has asked to be restarted
	Request   string // why
	// Idle is for how long it has neither read nor written anything, if that is
	// longer than it may; else 0.
	Idle     time.Duration
	Asks     bool // it has shown that it looks whether it is to finish
	Draining bool // it is to finish: what becomes of it then is decided
	// RoomAt is when its limit lets it be started once more; in the past: now.
	RoomAt time.Time
}

// InFlight are what is known of rounds before.
type InFlight struct {
	// Busy are paths at which something that was planned is being done. Of these,
	// and of what is in and above them, nothing more is planned.
	Busy map[string]bool
	// Starting are those at which something is being started, and nothing else is
	// done: of these only the end is planned, as it waits for no start.
	Starting map[string]bool
	// Before says of what is not wanted any more what has to be gone before it:
	// what depended on it.
	Before map[string][]string
}

// Kind is what is to be done.
type Kind uint8

const (
	Stop    Kind = iota // what nobody wants: at once, and with all in it
	Suspend             // what is wanted, but not to run
	Start
	Renew   // stop and start again
	Drain   // ask it to finish, and renew it then
	End     // end it as a failure: its supervisor and its limit decide what comes next
	Release // start what is held, with fresh counters
)

func (k Kind) String() string {
	return [...]string{"stop", "suspend", "start", "renew", "drain", "end", "release"}[k]
}

// Cause is why an agent that runs is renewed or ended, in the order in which they
// are looked for: the seed's sub-states.
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

// Action is something to do.
type Action struct {
	Kind Kind
	Path string
	// Incarnation is that which is to be renewed, drained or ended: whoever comes after it is not meant.
	Incarnation uint64
	Cause       Cause         // of Renew, Drain, End and Release
	Fields      []string      // that have drifted
	Within      time.Duration // of Drain
	// Counted: the agent can bring this about itself, again and again, so that its
	// start counts for its limit: it asks for it, or it writes the files that it reads.
	Counted bool
	Adopt   bool   // of Start: adopt the running incarnation
	Reason  string // for people
}

func (a Action) String() string { return fmt.Sprintf("%v %s: %s", a.Kind, a.Path, a.Reason) }

// Delay is something that would be done, and is not yet.
type Delay struct {
	Path string
	// For is what it waits for to be ready; "" if it is a limit, until Until.
	For   string
	Until time.Time
	Cause Cause // of a renewal that a limit holds
}

func (d Delay) String() string {
	if d.For != "" {
		return fmt.Sprintf("%s waits for %s", d.Path, d.For)
	}
	return fmt.Sprintf("%s (%v) was started too often and goes on as it is until %s", d.Path, d.Cause,
		d.Until.Format(time.DateTime))
}

// Result is what Plan has come to.
type Result struct {
	// Actions are to be done, what is not wanted first, everything else in the
	// order in which it is desired. All can be done at the same time.
	Actions []Action
	// Delays are what waits, in the order in which it is desired.
	Delays []Delay
	// Next is when there may be something to do without that anything happens; zero if never.
	Next time.Time
}

// Plan decides. desired is in start order; observed has everything that was
// seen, by path, whether it is wanted or not.
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
	ending   map[string]bool // supervisors that run and are not to
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

// taken reports whether that is something else than a start, which can be ended.
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

// orphans plans the end of what nobody wants. Of a supervisor that is not
// wanted only that itself, as what is in it ends with it.
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
		reason := "it is not wanted any more"
		if o.Orphan {
			reason = "no supervisor knows it"
		}
		p.Actions = append(p.Actions, Action{Kind: Stop, Path: at, Reason: reason})
	}
}

// amongOrphans reports whether something is in a supervisor that is not wanted either.
func (p *planner) amongOrphans(at string, wanted map[string]bool) bool {
	for above := path.Dir(at); above != "." && above != "/"; above = path.Dir(above) {
		if p.observed[above] != nil && !wanted[above] {
			return true
		}
	}
	return false
}

// suspending looks at what lives and is not to: what depends on others ends first.
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
