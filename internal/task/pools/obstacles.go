package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// An obstacle that many different tasks meet has a cause of its own, which no further attempt at one of them finds. So
// people are asked about it, once for each pool, also if it never fails often enough at a time to pause the pool.
const (
	manyTasks    = 5              // tasks of a pool that have met the same obstacle before people are asked
	manyWithin   = 24 * time.Hour // the time within which they have met it
	maxObstacles = 20             // obstacles of a pool that are kept, the last ones
	maxMet       = 20             // tasks of an obstacle that are kept, the last ones
)

// Obstacle is an obstacle that attempts at tasks of a pool have met lately.
type Obstacle struct {
	_ struct{} `schema:"TaskPoolObstacle" open:"true" doc:"An obstacle that attempts at tasks of a pool have met lately."`

	Kind    outcome.ObstacleKind `json:"kind" doc:"Its kind."`
	Subject string               `json:"subject,omitempty" doc:"The missing task, the service or the model; missing for other kinds."`
	Tasks   []MetBy              `json:"tasks" doc:"The tasks that have met it within a day, at most 20, the last one last."`
	Last    string               `json:"last,omitempty" doc:"What the last attempt has said of it."`
	// Since is when it was met by so many tasks that people are asked about it.
	Since time.Time `json:"since,omitzero" doc:"Since when people are asked about it; missing if they are not."`
}

// MetBy is a task that has met an obstacle.
type MetBy struct {
	_ struct{} `schema:"TaskMetObstacle" open:"true" doc:"A task that has met an obstacle."`

	Task string    `json:"task" doc:"The task."`
	At   time.Time `json:"at" doc:"When its last attempt that has met it has ended."`
}

// at returns when the obstacle was met last.
func (o Obstacle) at() time.Time {
	if len(o.Tasks) == 0 {
		return time.Time{}
	}
	return o.Tasks[len(o.Tasks)-1].At
}

// Name returns the kind and the subject, for people.
func (o Obstacle) Name() string {
	name := strings.ReplaceAll(string(o.Kind), "_", " ")
	if o.Subject != "" {
		name += " (" + o.Subject + ")"
	}
	return name
}

// String returns the obstacle with the tasks that have met it, for people.
func (o Obstacle) String() string {
	var ids []string
	for _, m := range o.Tasks {
		ids = append(ids, m.Task)
	}
	return fmt.Sprintf("%s: %s; the last: %s", o.Name(), strings.Join(ids, ", "), cmp.Or(o.Last, "not told"))
}

// obstacle returns the obstacle that an attempt has met, as the first to meet it; false if it does not count. One
// that is outside of the work pauses the account, the others are asked about on their own or are known too little.
func (a Attempt) obstacle() (Obstacle, bool) {
	r := a.Outcome
	if r.Context == nil || a.Stopped || r.Kind == outcome.Completed || r.Kind == outcome.Decomposed ||
		r.Condition != nil && r.Condition.Kind == outcome.PersonHas {
		return Obstacle{}, false
	}
	o := r.Context.Obstacle
	if o.Kind == outcome.OtherObstacle || o.Kind.Outside() {
		return Obstacle{}, false
	}
	met := Obstacle{
		Kind: o.Kind, Tasks: []MetBy{{Task: a.Task, At: a.EndedAt}}, Last: plaintext.Cut(o.String(), maxText),
	}
	switch o.Kind {
	case outcome.MissingPrerequisite:
		met.Subject = plaintext.Cut(o.TaskID, maxText)
	case outcome.ExternalDependency:
		met.Subject = plaintext.Cut(o.Service, maxText)
	case outcome.ModelLimitation:
		met.Subject = plaintext.Cut(o.Model, maxText)
	}
	return met, true
}

// meet counts an obstacle that an attempt has met, and reports whether people are asked about it from now on.
func (p *Pool) meet(o Obstacle) (asks bool) {
	by := o.Tasks[0]
	old := func(at time.Time) bool { return by.At.Sub(at) > manyWithin }
	all := slices.DeleteFunc(slices.Clone(p.Obstacles), func(before Obstacle) bool {
		if before.Kind != o.Kind || before.Subject != o.Subject {
			return old(before.at())
		}
		if !old(before.at()) {
			o.Since = before.Since
		}
		o.Tasks = append(slices.DeleteFunc(slices.Clone(before.Tasks), func(m MetBy) bool {
			return m.Task == by.Task || old(m.At)
		}), by)
		o.Tasks = o.Tasks[max(0, len(o.Tasks)-maxMet):]
		return true
	})
	if asks = o.Since.IsZero() && len(o.Tasks) >= manyTasks; asks {
		o.Since = by.At
	}
	p.Obstacles = append(all, o)
	p.Obstacles = p.Obstacles[max(0, len(p.Obstacles)-maxObstacles):]
	return asks
}

// Repeated returns the obstacles about which people are asked. Those that no attempt has met for a day are over.
func (p Pool) Repeated(now time.Time) (all []Obstacle) {
	for _, o := range p.Obstacles {
		if !o.Since.IsZero() && now.Sub(o.at()) <= manyWithin {
			all = append(all, o)
		}
	}
	return all
}

// ForgetObstacles returns the pool without the obstacles about which people were asked: their count begins again.
func (p Pool) ForgetObstacles() (_ Pool, changed bool) {
	left := slices.DeleteFunc(slices.Clone(p.Obstacles), func(o Obstacle) bool { return !o.Since.IsZero() })
	changed = len(left) < len(p.Obstacles)
	p.Obstacles = left
	return p, changed
}
