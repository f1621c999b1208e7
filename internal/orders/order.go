// Package orders decides when a command or a task that waits for its gates is
// due. An Engine is a pure state machine: it is told the time and what has
// happened, and answers what is to be done. It starts nothing and writes
// nothing, and it looks at nothing that is not due.
//
// What it promises, to whoever writes down a firing before he carries it out,
// with the State that comes with it:
//
//   - One run of an order at a time, unless its overlap is Allow.
//   - A time of a schedule, once it was dealt with, never fires again, whatever
//     the clock does. A time that passed while nobody looked is skipped, or made
//     up for once (CatchUp); one from before the order existed is neither.
//   - A cooldown counts real time since the last run began: by the clock of the
//     machine since it was booted, which nobody sets, and across a boot by the
//     calendar, but never backwards.
//   - Each event is counted once, and belongs to one run.
package orders

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// Order is something that is run when its gates open.
type Order struct {
	Name        string
	Description string
	// Command is run to its end, or a task is made of Task: one of the two is set.
	Command []string
	Task    *Task
	// Gates open it, any of them or, with All, all of them together.
	Gates []Gate
	All   bool
	// Timeout is how long a run may take, with the cap of [orders] applied already.
	Timeout time.Duration
	// Disabled: it is not fired by its gates, but by hand. Why says who wants
	// that: the order itself, or [orders] skip.
	Disabled bool
	Why      string
	CatchUp  bool
	Overlap  Overlap
	Retries  int // further attempts after a failed one
	Backoff  supervisor.Backoff
	Env      map[string]string
	Dir      string // absolute
	Source   string // file:line:column of where it is written
}

// Task is the template of a task.
type Task struct {
	Title    string   `json:"title"`
	Text     string   `json:"text,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Assignee string   `json:"assignee,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	Priority *int     `json:"priority,omitempty"`
}

// Kind is what opens a gate.
type Kind uint8

// Kinds of gates.
const (
	Manual    Kind = iota // nothing but people
	Cooldown              // time since the last run
	Cron                  // times of the calendar
	Condition             // a command that succeeds
	Event                 // an event of the log
)

func (k Kind) String() string {
	switch k {
	case Manual:
		return "manual"
	case Cooldown:
		return "cooldown"
	case Cron:
		return "cron"
	case Condition:
		return "condition"
	case Event:
		return "event"
	}
	return fmt.Sprintf("invalid(%d)", k)
}

// ParseKind is the inverse of String.
func ParseKind(text string) (Kind, error) {
	for k := Manual; k <= Event; k++ {
		if k.String() == text {
			return k, nil
		}
	}
	return 0, fmt.Errorf("there is no gate %.40q", text)
}

// Gate is one thing that opens an order. An order has one of each kind at most,
// but for Cron.
type Gate struct {
	Kind     Kind
	Interval time.Duration  // Cooldown: since the last run began
	Schedule *cron.Schedule // Cron
	Check    []string       // Condition: the command; exit code 0 opens
	Limit    time.Duration  // Condition: how long the command may take
	Every    time.Duration  // Condition: from the end of one to the next
	On       event.Filter   // Event
}

// String is the gate in words.
func (g Gate) String() string {
	switch g.Kind {
	case Cooldown:
		return "cooldown " + g.Interval.String()
	case Cron:
		return fmt.Sprintf("cron %s (%v)", g.Schedule, g.Schedule.Zone())
	case Condition:
		return "condition " + strings.Join(g.Check, " ")
	case Event:
		text := "event " + strings.Join(g.On.Types, ", ")
		if g.On.Path != "" {
			text += " of " + g.On.Path
		}
		return text
	}
	return g.Kind.String()
}

// Overlap says what becomes of a firing while the order runs.
type Overlap uint8

// What becomes of it.
const (
	Skip  Overlap = iota // nothing; it is reported
	Queue                // it fires when the run has ended, once however many there were
	Allow                // it fires at once
)

func (o Overlap) String() string {
	switch o {
	case Skip:
		return "skip"
	case Queue:
		return "queue"
	case Allow:
		return "allow"
	}
	return fmt.Sprintf("invalid(%d)", o)
}

// ParseOverlap is the inverse of String.
func ParseOverlap(text string) (Overlap, error) {
	for o := Skip; o <= Allow; o++ {
		if o.String() == text {
			return o, nil
		}
	}
	return 0, fmt.Errorf("there is no overlap %.40q", text)
}

// Defaults, and bounds.
const (
	DefaultTimeout = 300 * time.Second // of a run
	DefaultLimit   = 10 * time.Second  // of a check
	DefaultEvery   = 30 * time.Second  // between checks
	MaxBatch       = 10_000            // events of one run
)

// PathOf is what the events of an order say they are about.
func PathOf(name string) string { return "orders/" + name }

// gate returns the only gate of a kind, nil if there is none.
func (o *Order) gate(k Kind) *Gate {
	for i := range o.Gates {
		if o.Gates[i].Kind == k {
			return &o.Gates[i]
		}
	}
	return nil
}

// schedules tells the times of an order from those of another version of it.
func (o *Order) schedules() string {
	var all []string
	for _, g := range o.Gates {
		if g.Kind == Cron {
			all = append(all, g.Schedule.String()+" "+g.Schedule.Zone().String())
		}
	}
	return strings.Join(all, "; ")
}

// wants reports whether an event counts for the order. Those that tell of its own runs do
// not: it would never end.
func (o *Order) wants(e event.Event) bool {
	g := o.gate(Event)
	return g != nil && e.Path != PathOf(o.Name) && g.On.Match(e) && e.Type != event.EventsCompacted && e.Type != event.EventsReset
}
