// Package spans makes spans of the events of a log: one for each incarnation of an agent, each attempt at a task, and
// each attempt of a run of an order. It is pure: the same events make the same spans, with the same IDs.
//
// No text that an agent, a model or a person has written becomes a part of a span.
package spans

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spanid"
)

// Span is something that has ended.
type Span struct {
	ID         spanid.ID
	Parent     spanid.ID // zero if it is the first one of its trace
	Links      []Link
	Name       string
	Start, End time.Time // End is never before Start
	Attributes []attribute.KeyValue
	Events     []Event
	Failed     bool
	Reason     string // of a failure
}

// Link names another span that a span has to do with.
type Link struct {
	ID         spanid.ID
	Attributes []attribute.KeyValue
}

// Event is something that has happened during a span.
type Event struct {
	Name       string
	At         time.Time
	Attributes []attribute.KeyValue
}

// Bounds of what is remembered.
const (
	maxEvents  = 64      // of a span
	maxRunning = 200_000 // incarnations
)

// Builder makes spans of events, which it is given in their order.
type Builder struct {
	numbering string
	running   map[string]*incarnation // by path
	triggers  map[string]string       // that have fired for the next incarnation, by path
}

// New returns a Builder that knows nothing yet. The numbering names the history of the numbers of incarnations, tasks
// and runs; see spanid.Incarnation.
func New(numbering string) *Builder {
	return &Builder{numbering: numbering, running: map[string]*incarnation{}, triggers: map[string]string{}}
}

// Oldest returns the number of the first event about an incarnation that still runs; 0 if none does. A new Builder
// that is given the events from there on knows what this one does.
func (b *Builder) Oldest() (seq uint64) {
	for _, i := range b.running {
		if seq == 0 || i.seq < seq {
			seq = i.seq
		}
	}
	return seq
}

// Add takes an event, and returns the span that has ended with it; nil if none has.
func (b *Builder) Add(e event.Event) *Span {
	switch e.Type {
	case event.AgentFired:
		b.fired(e)
	case event.AgentStarted:
		b.started(e)
	case event.AgentExited, event.AgentCrashed, event.AgentLost, event.AgentWaiting, event.AgentStopped,
		event.AgentAbandoned, event.AgentStartFailed:
		return b.ended(e)
	case event.TaskReleased, event.TaskBlocked, event.TaskDecomposed, event.TaskEscalated, event.TaskParked,
		event.TaskClosed:
		return b.attempted(e)
	case event.OrderCompleted, event.OrderFailed:
		return b.ran(e)
	case event.CostCounted:
		b.called(e)
	case event.EventsReset: // what follows is another history
		clear(b.running)
	default:
		b.happened(e)
	}
	return nil
}

// of returns the incarnation that an event is about, while it runs; nil if it is about none.
func (b *Builder) of(e event.Event) *incarnation {
	i := b.running[e.Path]
	if i == nil || e.Incarnation != 0 && e.Incarnation != i.number {
		return nil
	}
	return i
}

// fired remembers what starts the next incarnation.
func (b *Builder) fired(e event.Event) {
	var data struct {
		Trigger string `json:"trigger"`
	}
	if e.Decode(&data) == nil && len(b.triggers) < maxRunning {
		b.triggers[e.Path] = plaintext.OneLine(data.Trigger, maxText)
	}
}

// happened notes an event during an incarnation.
func (b *Builder) happened(e event.Event) {
	i := b.of(e)
	if i == nil {
		return
	}
	allowed, ok := fields(e.Type)
	if !ok {
		return
	}
	if len(i.events) == maxEvents {
		i.dropped++
		return
	}
	var data map[string]any
	var all attributes
	if len(allowed) > 0 && e.Decode(&data) == nil {
		for _, name := range allowed {
			key := attribute.Key("coppice." + name)
			switch value := data[name].(type) {
			case string:
				all.text(key, value)
			case bool:
				all = append(all, key.Bool(value))
			case float64:
				all = append(all, key.Float64(value))
			}
		}
	}
	i.events = append(i.events, Event{Name: string(e.Type), At: e.Time, Attributes: all})
}

// fields returns the fields of the data of an event that a span has of it, none of which is written by an agent or a
// person; ok is false if it has no event of this type.
func fields(t event.Type) (names []string, ok bool) {
	switch t {
	case event.AgentNudged:
		return []string{"how"}, true
	case event.AgentUnresponsive, event.AgentCondemned:
		return []string{"cause"}, true
	case event.AgentDrained, event.AgentDrainEnded:
		return []string{"finished"}, true
	case event.AgentOverdue:
		return []string{"waited_seconds"}, true
	case event.AgentIdleKilled:
		return []string{"idle_seconds"}, true
	case event.AgentHook, event.AgentHookFailed:
		return []string{"hook", "seconds"}, true
	case event.AgentClaimed:
		return []string{"kind"}, true
	case event.QuotaSwitched:
		return []string{"from", "to"}, true
	case event.QuestionAsked, event.QuestionAnswered, event.QuestionExpired, event.QuestionWithdrawn:
		return []string{"id"}, true
	case event.TaskClaimed:
		return []string{"id"}, true
	case event.AgentAdopted, event.AgentStopping, event.AgentDraining, event.AgentFinished, event.AgentDrifted,
		event.AgentMoved, event.AgentResponsive, event.AgentRestartRequested, event.AgentStopRequested,
		event.AgentSuspended, event.AgentResumed, event.AgentReset, event.AgentMisbehaved:
		return nil, true
	}
	return nil, false
}
