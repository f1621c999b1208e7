package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/supervisor"
)

// Order is a command or task that runs when its gates open.
type Order struct {
	Name        string
	Description string
	// Either Command or Task is set: a command to run, or the template of a task to create.
	Command []string
	Task    *OrderTask
	// Gates open it: any one of them, or with All all of them together.
	Gates []Gate
	All   bool
	// Timeout bounds a run. The cap of [orders] is already applied.
	Timeout time.Duration
	// Disabled keeps its gates from firing it; people still can. Why names the setting that
	// disables it.
	Disabled bool
	Why      string
	CatchUp  bool
	Overlap  Overlap
	Retries  int // attempts after a failed one
	Backoff  supervisor.Backoff
	Env      map[string]string
	Dir      string // absolute
	Source   string // file:line:column of its definition
}

// OrderTask is the template of a task.
type OrderTask struct {
	Order    string   `json:"order,omitempty"` // name of the order
	Title    string   `json:"title"`
	Text     string   `json:"text,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Assignee string   `json:"assignee,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	Priority *int     `json:"priority,omitempty"`
}

// GateKind is the kind of condition of a gate.
type GateKind uint8

// Kinds of gates.
const (
	Manual    GateKind = iota // only people
	Cooldown                  // time since the last run
	Cron                      // times of the calendar
	Condition                 // a command that succeeds
	Event                     // an event of the log
)

func (k GateKind) String() string {
	return EnumName(k, "manual", "cooldown", "cron", "condition", "event")
}

// Gate is a condition that opens an order. An order has at most one of each kind,
// except Cron.
type Gate struct {
	Kind     GateKind
	Interval time.Duration  // Cooldown: since the last run began
	Schedule *cron.Schedule // Cron
	Check    []string       // Condition: the command; exit code 0 opens
	Limit    time.Duration  // Condition: timeout of the command
	Every    time.Duration  // Condition: time between two checks
	On       EventFilter    // Event
}

// String describes the gate.
func (g Gate) String() string {
	switch g.Kind {
	case Cooldown:
		return "cooldown " + g.Interval.String()
	case Cron:
		return fmt.Sprintf("cron %s (%s)", g.Schedule, zoneName(g.Schedule.Zone()))
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

// Overlap determines what happens when an order fires while it runs.
type Overlap uint8

// Values of Overlap.
const (
	OverlapSkip  Overlap = iota // the firing is dropped and reported
	OverlapQueue                // one run follows, however many firings there were
	OverlapAllow                // it runs concurrently
)

func (o Overlap) String() string { return EnumName(o, "skip", "queue", "allow") }

// Defaults of orders.
const (
	DefaultOrderTimeout = 300 * time.Second // of a run
	DefaultCheckLimit   = 10 * time.Second
	DefaultCheckEvery   = 30 * time.Second
)

// EventFilter selects events whose type matches one of the patterns (as for path.Match,
// such as "agent.*") and, if Path is not empty, that are about Path or a path below it.
type EventFilter struct {
	Types []string
	Path  string
}

// Gate returns the first gate of a kind, or nil.
func (o *Order) Gate(k GateKind) *Gate {
	for i := range o.Gates {
		if o.Gates[i].Kind == k {
			return &o.Gates[i]
		}
	}
	return nil
}

// zoneName returns the name of a time zone for people.
func zoneName(zone *time.Location) string {
	if zone == time.Local {
		return "local time"
	}
	return zone.String()
}
