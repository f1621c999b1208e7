package order

import "time"

// Now is the current time.
type Now struct {
	Wall time.Time     // the calendar, which may be set
	Up   time.Duration // since Boot, with the time in which the machine was suspended
	Boot string        // identifies the boot
}

// Stamp is a time that can be compared after a reboot.
type Stamp struct {
	Wall time.Time     `json:"wall,omitzero"`
	Up   time.Duration `json:"up,omitempty"` // nanoseconds
	Boot string        `json:"boot,omitempty"`
}

// Stamp returns the time as a Stamp.
func (n Now) Stamp() Stamp { return Stamp{n.Wall.Round(0), n.Up, n.Boot} }

// Since returns the time since a stamp, never negative. After a reboot it uses the calendar,
// and returns 0 if the clock was set back.
func (n Now) Since(s Stamp) time.Duration {
	if s.Boot == n.Boot && s.Boot != "" {
		return max(0, n.Up-s.Up)
	}
	return max(0, n.Wall.Sub(s.Wall))
}

// IsZero reports whether the stamp is unset.
func (s Stamp) IsZero() bool { return s.Wall.IsZero() && s.Boot == "" }

// State is the stored record of an order.
type State struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"` // when the order was first in force
	// Fired is when its last run began; zero if there is none.
	Fired Stamp `json:"fired,omitzero"`
	// Considered is the time up to which all times of Schedules are handled.
	Considered time.Time `json:"considered"`
	Schedules  string    `json:"schedules,omitempty"`
	// Waiting is a time of its schedules that has come and could not fire yet.
	Waiting time.Time `json:"waiting,omitzero"`
	// Cursor is the number of the event up to which all events belong to a run or do not count.
	Cursor uint64 `json:"cursor"`
	// Asked is set if another run was requested to follow the one in progress.
	Asked bool `json:"asked,omitempty"`
	// Off is set if the order was disabled or not in the file at the last decision. Events and
	// times do not count for it meanwhile.
	Off bool `json:"off,omitempty"`
	// ByHand is the choice of a person, if any.
	ByHand Choice `json:"by_hand,omitempty"`
	// Lead is how far the runs that events have fired were ahead of their pace at LeadAt.
	Lead   time.Duration `json:"lead_ns,omitempty"`
	LeadAt Stamp         `json:"lead_at,omitzero"`
	// PacedAt is when events began to fire it at that pace only; zero if they fire it freely.
	PacedAt time.Time `json:"paced_at,omitzero"`
	// Runs counts all runs; Skips counts firings that were skipped.
	Runs  uint64 `json:"runs,omitempty"`
	Skips uint64 `json:"skips,omitempty"`
	// Skipped is why the last one was skipped, and SkippedAt when.
	Skipped   string    `json:"skipped,omitempty"`
	SkippedAt time.Time `json:"skipped_at,omitzero"`
}

// Choice of a person about an order.
type Choice string

// Choices; without one the file decides.
const (
	EnabledByHand  Choice = "enabled"
	DisabledByHand Choice = "disabled"
)

// Batch identifies the events of a run: those that match, after After and up to Until.
type Batch struct {
	After uint64   `json:"after"`
	Until uint64   `json:"until"`
	Count int      `json:"count"`
	Types []string `json:"types,omitempty"` // the filter
	Path  string   `json:"path,omitempty"`
}
