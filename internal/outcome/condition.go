package outcome

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// Condition says when blocked work can go on.
type Condition struct {
	Kind ConditionKind `json:"kind"`
	// What names the task, the time, the service, the events, the command, or what the person has to do.
	What string `json:"what"`
}

// ConditionKind is the kind of a Condition.
type ConditionKind string

const (
	TaskDone    ConditionKind = "task"    // a task is completed
	TimeComes   ConditionKind = "time"    // it is that time: What as in RFC 3339
	ServiceUp   ConditionKind = "service" // an external service works again
	EventOccurs ConditionKind = "event"   // an event comes that matches; see EventFilter
	PersonHas   ConditionKind = "person"  // a person has done or decided it
	// CommandSucceeds means that a command exits with 0. Only people set it: it runs as the user of the
	// daemon, and so it is no condition of an outcome.
	CommandSucceeds ConditionKind = "command"
)

// MaxCondition bounds a service, the events and a command of a condition, in bytes.
const MaxCondition = 4 << 10

// ConditionKinds returns the kinds that an outcome can have.
func ConditionKinds() []ConditionKind {
	return []ConditionKind{TaskDone, TimeComes, ServiceUp, EventOccurs, PersonHas}
}

// ParseCondition parses a condition that a person has written as KIND=WHAT. A time may be a duration from
// now. CheckCondition checks the rest.
func ParseCondition(text string, now time.Time) (Condition, error) {
	kind, what, ok := strings.Cut(text, "=")
	if !ok {
		return Condition{}, fmt.Errorf("is %.80q, expected task=ID, time=WHEN, service=NAME, event=TYPE or "+
			"person=WHAT THEY DO", text)
	}
	c := Condition{Kind: ConditionKind(kind), What: what}
	if c.Kind == TimeComes {
		at, err := ParseTime(what, now)
		if err != nil {
			return c, err
		}
		c.What = at.UTC().Format(time.RFC3339)
	}
	return c, nil
}

// CheckCondition returns an error with all problems of a condition that a person sets, nil if there are
// none.
func CheckCondition(c Condition) error {
	var e Error
	e.condition(c, append(ConditionKinds(), CommandSucceeds))
	if text := e.problems(); text != "" {
		return errors.New(text)
	}
	return nil
}

// condition adds the problems of a condition of one of some kinds.
func (e *Error) condition(c Condition, kinds []ConditionKind) {
	switch {
	case slices.Contains(kinds, c.Kind):
	case c.Kind == CommandSucceeds:
		e.addWrong("condition.kind is command, which only people can set, with: coppice task block ID --until " +
			"command=COMMAND; wait for a service of the file, or an event")
	default:
		addUnknown(e, "condition.kind", c.Kind, kinds)
	}
	if e.require(notBlank(c.What), "condition.what"); !notBlank(c.What) {
		return
	}
	switch c.Kind {
	case TimeComes:
		if _, err := time.Parse(time.RFC3339, c.What); err != nil {
			e.addWrong("condition.what is %.80q, expected a time such as 2030-01-02T15:04:05Z", c.What)
		}
	case ServiceUp, EventOccurs, CommandSucceeds:
		if len(c.What) > MaxCondition {
			e.addWrong("condition.what has %d bytes, expected at most %d", len(c.What), MaxCondition)
		} else if strings.ContainsRune(c.What, 0) {
			e.addWrong("condition.what has a zero byte, expected plain text")
		}
	}
	if c.Kind == EventOccurs && len(c.What) <= MaxCondition {
		if err := c.EventFilter().CheckTypes(); err != nil {
			e.addWrong("condition.what: %v", err)
		}
	}
}

// EventFilter returns which events a condition waits for. What is TYPE[,TYPE...][:PATH]: types or patterns
// of these, and the node that the events are about, or that is above it.
func (c Condition) EventFilter() event.Filter {
	types, path, _ := strings.Cut(c.What, ":")
	f := event.Filter{Path: strings.Trim(strings.TrimSpace(path), "/")}
	for t := range strings.SplitSeq(types, ",") {
		f.Types = append(f.Types, strings.TrimSpace(t))
	}
	return f
}
