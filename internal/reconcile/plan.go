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
	case o.Moves != "":
		a.Cause, a.Reason = Moved, o.Moves
	default:
		return
	}
	if a.Cause != Requested && o.Asks && d.DrainTimeout > 0 {
		a.Kind, a.Within = Drain, d.DrainTimeout
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

// maxFields bounds the number of fields that a reason names.
const maxFields = 5

func fields(all []string) string {
	text := strings.Join(all[:min(len(all), maxFields)], ", ")
	if more := len(all) - maxFields; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return cmp.Or(text, "it is not known what")
}
