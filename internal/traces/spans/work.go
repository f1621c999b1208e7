package spans

import (
	"cmp"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spanid"
)

// attempted returns the span of an attempt at a task; nil if the event ends none. It is below the incarnation that has
// made it.
func (b *Builder) attempted(e event.Event) *Span {
	var data struct {
		ID       string    `json:"id"`
		Pool     string    `json:"pool"`
		Attempt  int       `json:"attempt"`
		BeganAt  time.Time `json:"attempt_began_at"`
		Outcome  string    `json:"attempt_outcome"`
		Obstacle string    `json:"obstacle"`
	}
	if e.Decode(&data) != nil || data.Attempt < 1 || data.BeganAt.IsZero() {
		return nil
	}
	s := &Span{
		ID: spanid.OwnAttempt(b.numbering, data.ID, data.Attempt), Name: "attempt", Start: data.BeganAt,
		End: later(e.Time, data.BeganAt),
	}
	var all attributes
	all.text(keyTask, data.ID)
	all.number(keyTaskAttempt, int64(data.Attempt))
	all.text(keyTaskPool, data.Pool)
	all.text(keyOutcome, data.Outcome)
	all.text(keyObstacle, data.Obstacle)
	if e.Incarnation > 0 {
		s.Parent = spanid.Incarnation(b.numbering, e.Path, e.Incarnation)
		s.ID = s.Parent.Attempt(data.ID, data.Attempt)
		all.text(keyPath, e.Path)
		all.number(keyIncarnation, clamp(e.Incarnation))
	}
	if data.Outcome == "retryable" || data.Outcome == "escalated" {
		s.Failed = true
		s.Reason = plaintext.OneLine(cmp.Or(data.Obstacle, data.Outcome), maxText)
		all.text(errorType, s.Reason)
	}
	s.Attributes = all
	return s
}

// ran returns the span of an attempt of a run of an order; nil if it has not begun.
func (b *Builder) ran(e event.Event) *Span {
	var data struct {
		Order     string    `json:"order"`
		Run       string    `json:"run"`
		Attempt   int       `json:"attempt"`
		Status    string    `json:"status"`
		StartedAt time.Time `json:"started_at"`
		EndedAt   time.Time `json:"ended_at"`
		Code      *int64    `json:"code"`
		Signal    string    `json:"signal"`
		Task      string    `json:"task"`
	}
	if e.Decode(&data) != nil || data.StartedAt.IsZero() {
		return nil
	}
	s := &Span{
		ID:   spanid.Order(b.numbering, data.Run, data.Attempt),
		Name: plaintext.OneLine("order "+data.Order, maxName), Start: data.StartedAt,
		End: later(cmp.Or(data.EndedAt, e.Time), data.StartedAt),
	}
	if data.Attempt > 1 {
		s.Parent = spanid.Order(b.numbering, data.Run, 1)
	}
	var all attributes
	all.text(keyOrder, data.Order)
	all.text(keyRun, data.Run)
	all.number(keyRunAttempt, int64(data.Attempt))
	all.text(keyRunStatus, data.Status)
	if data.Code != nil {
		all.number(keyCode, *data.Code)
	}
	all.text(keySignal, data.Signal)
	all.text(keyTask, data.Task)
	if e.Type == event.OrderFailed && data.Status != "stopped" {
		s.Failed = true
		switch {
		case data.Signal != "":
			s.Reason = "signal " + plaintext.OneLine(data.Signal, maxText)
		case data.Code != nil:
			s.Reason = fmt.Sprintf("exit code %d", *data.Code)
		default:
			s.Reason = plaintext.OneLine(data.Status, maxText)
		}
		all.text(errorType, cmp.Or(data.Status, "_OTHER"))
	}
	s.Attributes = all
	return s
}
