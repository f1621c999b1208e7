package order

import "time"

// Now is the time as an Engine needs it.
type Now struct {
	Wall time.Time     // the calendar, which may be set
	Up   time.Duration // since Boot, which nobody sets; sleep of the machine counts
	Boot string        // names the boot that Up counts from
}

// Stamp is a moment that is kept beyond a boot.
type Stamp struct {
	Wall time.Time     `json:"wall,omitzero"`
	Up   time.Duration `json:"up,omitempty"` // nanoseconds
	Boot string        `json:"boot,omitempty"`
}

// Stamp keeps the moment.
func (n Now) Stamp() Stamp { return Stamp{n.Wall.Round(0), n.Up, n.Boot} }

// Since is the time since a stamp, never negative. After a boot in between the
// calendar has to do, and a clock that was set back says that no time has passed.
func (n Now) Since(s Stamp) time.Duration {
	if s.Boot == n.Boot && s.Boot != "" {
		return max(0, n.Up-s.Up)
	}
	return max(0, n.Wall.Sub(s.Wall))
}

// IsZero reports whether there was no such moment.
func (s Stamp) IsZero() bool { return s.Wall.IsZero() && s.Boot == "" }

// State is what is kept of an order for as long as it is in the file.
type State struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"` // when it was seen first
	// Fired is when its last run began; zero if none has.
	Fired Stamp `json:"fired,omitzero"`
	// Considered: all times of Schedules up to this one are dealt with.
	Considered time.Time `json:"considered"`
	Schedules  string    `json:"schedules,omitempty"`
	// Waiting is the time of its schedule that is due and could not fire yet.
	Waiting time.Time `json:"waiting,omitzero"`
	// Cursor: all events up to this one are handed over, or do not count.
	Cursor uint64 `json:"cursor"`
	// Asked: somebody wants it to run once more, after the run that goes on.
	Asked bool `json:"asked,omitempty"`
	// Off: it was disabled, or not in the file, when it was looked at last. What comes
	// to pass meanwhile does not count for it.
	Off bool `json:"off,omitempty"`
	// ByHand is what a person has decided: Enabled, Disabled, or nothing.
	ByHand Choice `json:"by_hand,omitempty"`
	// Lead is how far the runs that events have fired were ahead of their pace, when.
	Lead   time.Duration `json:"lead_ns,omitempty"`
	LeadAt Stamp         `json:"lead_at,omitzero"`
	// PacedAt is since when events fire it at that pace only; zero if they fire it freely.
	PacedAt time.Time `json:"paced_at,omitzero"`
	// Runs counts all that ever began; Skips those that did not.
	Runs  uint64 `json:"runs,omitempty"`
	Skips uint64 `json:"skips,omitempty"`
	// Skipped is why the last of them did not, and when.
	Skipped   string    `json:"skipped,omitempty"`
	SkippedAt time.Time `json:"skipped_at,omitzero"`
}

// Choice of a person about an order.
type Choice string

// Choices; none is that of the file.
const (
	EnabledByHand  Choice = "enabled"
	DisabledByHand Choice = "disabled"
)

// Batch says which events belong to a run: those that match, after After and up to Until.
type Batch struct {
	After uint64   `json:"after"`
	Until uint64   `json:"until"`
	Count int      `json:"count"`
	Types []string `json:"types,omitempty"` // the filter
	Path  string   `json:"path,omitempty"`
}
