package orders

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// audit holds what the event log says of orders against what their runs have noted.
type audit struct {
	runs map[string]*run // by id
	tick *run            // the last of the schedule
	owed map[uint64]bool // events that are to be handed over; true once they were
	sum  counts
	errs []error
}

// run is a run as the log and its journal know it.
type run struct {
	order                          string
	fired, completed, begun, ended int
	at, slot                       time.Time
}

func newAudit() *audit {
	return &audit{runs: make(map[string]*run), owed: make(map[uint64]bool)}
}

func (a *audit) fail(format string, args ...any) {
	if len(a.errs) < 20 {
		a.errs = append(a.errs, fmt.Errorf(format, args...))
	}
}

func (a *audit) run(id string) *run {
	r := a.runs[id]
	if r == nil {
		r = &run{}
		a.runs[id] = r
	}
	return r
}

// event takes the next event of the log.
func (a *audit) event(e event.Event) {
	var data struct{ Order, Run, Reason string }
	switch e.Type {
	case event.OrderFired, event.OrderCompleted, event.OrderFailed:
		if err := json.Unmarshal(e.Data, &data); err != nil || data.Run == "" {
			a.fail("event %d %s %s has no run: %s", e.Seq, e.Type, e.Path, e.Data)
			return
		}
	default:
		return
	}
	r := a.run(data.Run)
	switch e.Type {
	case event.OrderFired:
		r.order, r.at = data.Order, e.Time
		r.fired++
		if data.Order == "tick" {
			a.slot(r, data.Run, data.Reason)
		}
	case event.OrderCompleted:
		r.completed++
		if data.Order == "cool" {
			a.owed[e.Seq] = false
		}
	case event.OrderFailed:
		a.fail("run %s of %s: %s", data.Run, data.Order, e.Message)
	}
}

// slot takes a firing of the schedule of every second. It is for the first second
// after the firing before: one that is earlier was fired twice, one that is
// later has left some out.
func (a *audit) slot(r *run, id, reason string) {
	at, err := time.Parse(time.RFC3339, strings.TrimPrefix(reason, "it is time: "))
	if err != nil {
		a.fail("run %s of tick: its reason is %q", id, reason)
		return
	}
	r.slot = at
	a.sum.slots++
	if last := a.tick; last != nil {
		if !at.After(last.slot) {
			a.fail("run %s is for %v, after one for %v", id, at, last.slot)
		}
		if at.After(last.at.Add(time.Second)) {
			a.fail("run %s is for %v, the one before it was fired at %v: there was a time between them", id, at,
				last.at)
		}
	}
	a.tick = r
}

// journal takes what the runs of an order have noted.
func (a *audit) journal(order, text string) {
	open := ""
	for line := range strings.Lines(text) {
		what, id, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || what != "begin" && what != "end" {
			a.fail("%s: %q is no line of a journal", order, line)
			continue
		}
		r := a.run(id)
		if what == "begin" {
			r.begun++
		} else {
			r.ended++
		}
		if order == "tick" || order == "hand" {
			continue // which may overlap
		}
		switch {
		case what == "begin" && open != "":
			a.fail("%s: run %s began while %s went on", order, id, open)
		case what == "end" && open != id:
			a.fail("%s: run %s ended while %q went on", order, id, open)
		}
		open = ""
		if what == "begin" {
			open = id
		}
	}
}

// hear takes the events that were handed over.
func (a *audit) hear(seqs []uint64) {
	for _, seq := range seqs {
		before, known := a.owed[seq]
		switch {
		case !known:
			a.fail("event %d was handed over, and is none of those asked for", seq)
		case before:
			a.fail("event %d was handed over twice", seq)
		}
		a.owed[seq] = true
	}
	a.sum.events = len(seqs)
}

// acknowledge takes the runs that somebody was told of.
func (a *audit) acknowledge(ids []string) {
	for _, id := range ids {
		if r := a.runs[id]; r == nil || r.fired == 0 {
			a.fail("run %s was acknowledged, and is not in the log", id)
		}
	}
	a.sum.byHand = len(ids)
}

// close says what was found.
func (a *audit) close() (counts, error) {
	for id, r := range a.runs {
		if r.fired != 1 || r.completed != 1 || r.begun != 1 || r.ended != 1 {
			a.fail("run %s of %q was fired %d times, began %d times, ended %d times, and has completed %d times", id,
				r.order, r.fired, r.begun, r.ended, r.completed)
		}
	}
	for seq, handed := range a.owed {
		if !handed {
			a.fail("event %d was never handed over", seq)
		}
	}
	a.sum.runs = len(a.runs)
	return a.sum, errors.Join(a.errs...)
}

// seqOf is the number of an event that is a line of JSON.
func seqOf(line string) (uint64, error) {
	var e struct{ Seq uint64 }
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq == 0 {
		return 0, fmt.Errorf("%.200q is no event", line)
	}
	return e.Seq, nil
}
