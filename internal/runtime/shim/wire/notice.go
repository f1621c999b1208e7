package wire

import (
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
)

// Notice is a sdnotify.Notice that is sent or stored. Its times are durations before now, by the
// monotonic clock of the sender, so they hold for a reader with another clock and after a
// suspend. In a file they are meaningless.
type Notice struct {
	Since     time.Duration  `json:"since"`
	Heard     *time.Duration `json:"heard,omitempty"`
	Status    string         `json:"status,omitempty"`
	Alive     *time.Duration `json:"alive,omitempty"`
	Period    time.Duration  `json:"period,omitempty"`
	Until     *time.Duration `json:"until,omitempty"`
	Triggered bool           `json:"triggered,omitempty"`
	Stopping  *time.Duration `json:"stopping,omitempty"`
	Reloading bool           `json:"reloading,omitempty"`
	Errno     int            `json:"errno,omitempty"`
}

// NewNotice describes what was reported by now; it returns nil if there was no listener.
func NewNotice(n sdnotify.Notice, now time.Time) *Notice {
	if n.Since.IsZero() {
		return nil
	}
	ago := func(at time.Time) *time.Duration {
		if at.IsZero() {
			return nil
		}
		d := now.Sub(at)
		return &d
	}
	return &Notice{
		Since: now.Sub(n.Since), Heard: ago(n.Heard), Status: n.Status, Alive: ago(n.Alive), Period: n.Period,
		Until:     ago(n.Until),
		Triggered: n.Triggered, Stopping: ago(n.Stopping), Reloading: n.Reloading, Errno: n.Errno,
	}
}

// Notice returns the described notice, as reported by now; the zero value for nil.
func (w *Notice) Notice(now time.Time) sdnotify.Notice {
	if w == nil {
		return sdnotify.Notice{}
	}
	at := func(ago *time.Duration) time.Time {
		if ago == nil {
			return time.Time{}
		}
		return now.Add(-*ago)
	}
	return sdnotify.Notice{
		Since: now.Add(-w.Since), Heard: at(w.Heard), Status: w.Status, Alive: at(w.Alive), Period: w.Period,
		Until:     at(w.Until),
		Triggered: w.Triggered, Stopping: at(w.Stopping), Reloading: w.Reloading, Errno: w.Errno,
	}
}
