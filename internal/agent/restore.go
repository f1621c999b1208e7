package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	pathpkg "path"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Restore compares the records with what was found in the slots. What runs, or has ended unseen, is to
// be adopted; what is missing is lost; what is not wanted is stopped.
func (m *Manager) Restore(ctx context.Context, saved *SavedState, found map[string][]Slot) {
	r := &restorer{m, saved, m.Fleet().Agents()}
	saved.adoptions = m.adoptions
	var unwanted []Slot
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if r.agents[path] == nil || r.isStopped(path) {
			unwanted = append(unwanted, found[path]...)
		} else {
			r.assign(path, found[path])
		}
	}
	if m.Once {
		r.reset(found)
	}
	for path, rec := range saved.Records {
		if found[path] == nil && r.agents[path] != nil && !rec.Ended && rec.Incarnation > 0 &&
			!r.isStopped(path) {
			m.adoptions[path] = r.lost(path, rec.Incarnation)
		}
	}
	m.stopUnwanted(ctx, unwanted)
}

// restorer decides what becomes of the agents of an earlier daemon.
type restorer struct {
	m      *Manager
	saved  *SavedState
	agents map[string]*spec.Agent
}

// lost is the adoption of an incarnation that will turn out to be lost.
func (r *restorer) lost(path string, incarnation uint64) adoption {
	lost := adoption{kind: r.agents[path].Runtime.String(), incarnation: incarnation}
	if rec := r.saved.Records[path]; rec != nil && rec.Incarnation == incarnation {
		lost.startedAt = rec.StartedAt
	}
	return lost
}

// isStopped reports whether an agent, or a supervisor above it, was stopped by hand.
func (r *restorer) isStopped(path string) bool {
	if r.m.Once {
		return false
	}
	for at := path; at != "."; at = pathpkg.Dir(at) {
		if rec := r.saved.Records[at]; rec != nil && rec.State == supervisor.Suspended.String() {
			return true
		}
	}
	return false
}

// assign decides what becomes of the slots of an agent that is wanted: which one has its last
// incarnation, and which ones have to be emptied.
func (r *restorer) assign(path string, all []Slot) {
	home := r.agents[path].Runtime.String()
	last := all[0]
	for _, s := range all {
		if s.Incarnation > last.Incarnation || s.Incarnation == last.Incarnation && s.Kind == home {
			last = s
		}
	}
	rec := r.saved.Of(path)
	for _, s := range all {
		// A start replaces what has ended in the runtime of the agent.
		if s.Kind == home && (last.Kind == home || s.Life == runtime.Dead) {
			continue
		}
		r.m.addStale(s, "it runs in another runtime since", rec)
	}
	switch {
	case last.Kind == home && last.Life != runtime.Dead:
		r.resume(last)
	case last.Kind == home && r.m.Once && last.StartedAt.After(rec.SavedAt): // numbers have begun at 1 again since
		r.resume(last)
	case last.Life == runtime.Alive: // it is stopped there, and started in its runtime
		rec.Incarnation = max(rec.Incarnation, last.Incarnation)
		rec.Ended, rec.State, rec.Reason = true, supervisor.Waiting.String(), ""
	case last.Incarnation >= rec.Incarnation:
		r.resume(last) // an exit that is not on record is handled, wherever it was
	case !rec.Ended:
		r.m.adoptions[path] = r.lost(path, rec.Incarnation)
	}
	// Else its exit was handled, and the start of a later one has failed before that had the slot.
}

// resume decides what becomes of the last incarnation of an agent that is wanted.
func (r *restorer) resume(s Slot) {
	path := s.Path
	rec := r.saved.Of(path)
	if s.Life == runtime.Unknown { // a damaged slot does not know these
		s.Incarnation = max(s.Incarnation, rec.Incarnation)
		if s.StartedAt.IsZero() {
			s.StartedAt = rec.StartedAt
		}
	}
	if s.Incarnation == rec.Incarnation && rec.Ended && s.Life == runtime.Dead {
		return // its exit was handled
	}
	asked := s.Exit.Kind == supervisor.ShutDown || errors.Is(s.Exit.Err, supervisor.ErrKilled)
	if s.Life == runtime.Dead && rec.Incarnation == 0 && asked {
		// It was stopped on request, and the reason is gone with the state. This is no failure.
		rec.Incarnation, rec.Ended, rec.State = s.Incarnation, true, supervisor.Waiting.String()
		return
	}
	if s.Incarnation == rec.Incarnation && s.Life != runtime.Unknown && rec.isRestarting() && !r.m.Once &&
		r.agents[path].Aide == nil {
		r.finishRestart(s, rec)
		return
	}
	// What happened between the last record and the last incarnation.
	if s.Incarnation > rec.Incarnation {
		r.countDelayed(rec)
	}
	for _, b := range s.Before {
		if b.Incarnation > rec.Incarnation || b.Incarnation == rec.Incarnation && !rec.Ended {
			r.countUnknown(rec, b.Incarnation, s.StartedAt)
			r.countMissed(rec, b)
		}
	}
	r.countUnknown(rec, s.Incarnation, s.StartedAt)
	late := s.Incarnation > rec.Incarnation
	rec.Incarnation, rec.StartedAt = s.Incarnation, s.StartedAt
	rec.Ended, rec.State = false, supervisor.Running.String()
	if late {
		r.m.Log.Append(lateStart(path, s.Incarnation, s.StartedAt), rec.Op())
	}
	r.m.adoptions[path] = adoption{kind: s.Kind, incarnation: s.Incarnation, late: late, endedAt: s.ExitedAt}
	r.m.adopt(context.Background(), s.Observation) // nothing is written yet: there is nothing to wait for
}

// finishRestart has an agent started again whose last incarnation was being stopped for that: once it
// has ended, if it has not yet.
func (r *restorer) finishRestart(s Slot, rec *Record) {
	why := rec.Reason
	rec.Ended, rec.State, rec.Reason = true, supervisor.Waiting.String(), ""
	if s.Life != runtime.Dead {
		r.m.addStale(s, why, rec)
		return
	}
	rec.LastExit = saveExit(s.Exit)
	r.m.cleared(rec.Path, s.Incarnation)
	r.m.Log.Append(event.Event{
		Time: s.ExitedAt, Type: event.AgentStopped, Path: rec.Path, Incarnation: s.Incarnation, Actor: "supervisor",
		Message: fmt.Sprintf("%s stopped: %v (%s); noticed later", rec.Path, s.Exit, why),
	}.With(event.Stopped{End: EventEnd(s.Exit), Cause: event.Cause{Reason: why}, Late: true}), rec.Op())
}

// reset lets the tree live once: what runs is adopted with fresh counters, all else is numbered from 1
// again. An exit that is not on record yet is logged.
func (r *restorer) reset(found map[string][]Slot) {
	for path, rec := range r.saved.Records {
		from, runs := r.m.adoptions[path]
		end := runtime.Ended{Incarnation: rec.Incarnation, ExitedAt: time.Now(), Exit: LostExit()}
		if i := slices.IndexFunc(found[path], func(s Slot) bool {
			return runs && s.Kind == from.kind && (s.Life != runtime.Dead || s.Incarnation == from.incarnation)
		}); i >= 0 {
			s := found[path][i]
			runs = s.Life != runtime.Dead
			end = runtime.Ended{Incarnation: s.Incarnation, ExitedAt: s.ExitedAt, Exit: s.Exit}
		} else {
			runs = false
		}
		if !runs {
			if r.agents[path] != nil && !rec.Ended && rec.Incarnation > 0 {
				r.countMissed(rec, end)
			}
			delete(r.m.adoptions, path)
			r.m.Starts.Forget(path)
			r.m.cleared(path, from.incarnation)
			rec.Incarnation, rec.StartedAt = 0, time.Time{}
		}
		*rec = Record{Path: path, Incarnation: rec.Incarnation, StartedAt: rec.StartedAt, Ended: !runs,
			State: supervisor.Waiting.String()}
	}
	clear(r.saved.Selves)
}

// maxUnknown is more restarts than any limit has to count.
const maxUnknown = 1000

// countDelayed counts the start that followed the delay or quarantine of a record. A limit of starts
// counts it when it happens; a limit of restarts has counted it before.
func (r *restorer) countDelayed(rec *Record) {
	delayed := rec.State == supervisor.Restarting.String() || rec.State == supervisor.Quarantined.String()
	if rec.Ended && delayed && r.agents[rec.Path].Limit.Count == supervisor.CountStarts {
		rec.Counted = append(rec.Counted, cmp.Or(rec.NextAt, rec.SavedAt))
	}
}

// countUnknown counts the restarts of an agent up to the incarnation next of which nothing else is
// known, because the daemon was killed while the store took no writes: they must not give the agent a
// fresh budget.
func (r *restorer) countUnknown(rec *Record, next uint64, at time.Time) {
	first := rec.Incarnation // whose exit is missing
	if rec.Ended {
		first++
	}
	if rec.Incarnation == 0 || next <= first {
		return
	}
	n := int(min(next-first, maxUnknown))
	rec.Incarnation, rec.Ended = next-1, true
	rec.Restarts += n
	rec.Attempt += n
	for range n {
		rec.Counted = append(rec.Counted, at)
	}
	r.m.Log.Append(event.Event{
		Type: event.EventsDropped, Path: rec.Path, Incarnation: rec.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s was restarted %d times before incarnation %d; exit status unknown: the daemon was "+
			"killed while the store took no writes", rec.Path, n, next),
	}.With(event.Dropped{Count: uint64(n), First: rec.StartedAt, Last: at}), rec.Op())
}

// countMissed logs and counts the exit of an incarnation that is not in the log and had a successor.
func (r *restorer) countMissed(rec *Record, b runtime.Ended) {
	if b.Incarnation > rec.Incarnation {
		r.m.Log.Append(lateStart(rec.Path, b.Incarnation, b.ExitedAt))
	}
	rec.Incarnation, rec.Ended = b.Incarnation, true
	rec.Restarts++
	rec.Attempt++
	rec.Counted = append(rec.Counted, b.ExitedAt)
	rec.LastExit = saveExit(b.Exit)
	r.m.Log.Append(LateExit(rec.Path, b), rec.Op())
}

// LateExit returns the event of an exit of an agent that no daemon has seen.
func LateExit(path string, b runtime.Ended) event.Event {
	kind := event.AgentCrashed
	switch {
	case b.Exit.Clean():
		kind = event.AgentExited
	case b.Exit.Kind == supervisor.Lost:
		kind = event.AgentLost
	}
	end := EventEnd(b.Exit)
	end.Late = true
	return event.Event{
		Time: b.ExitedAt, Type: kind, Path: path, Incarnation: b.Incarnation, Actor: "supervisor",
		Message: fmt.Sprintf("%s ended: %v; noticed later", path, b.Exit),
	}.With(end)
}

// lateStart is the event of a start that an earlier daemon has not logged.
func lateStart(path string, incarnation uint64, at time.Time) event.Event {
	return event.Event{
		Time: at, Type: event.AgentStarted, Path: path, Incarnation: incarnation, Actor: "supervisor",
		Message: fmt.Sprintf("%s started, incarnation %d; noticed later", path, incarnation),
	}.With(event.Late{Late: true})
}
