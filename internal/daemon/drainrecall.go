package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// recallDrains reads who was asked to finish. One that has ended meanwhile is
// stopped, as it would have been.
func (c *Controller) recallDrains(ctx context.Context, records map[string]*record) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, drainPrefix)
	if err != nil {
		return fmt.Errorf("reading who was asked to finish: %w", err)
	}
	for _, s := range stored {
		d := new(drain)
		if json.Unmarshal(s.Value, d) != nil || d.Path == "" || d.key() != s.Key {
			c.opts.Logger.Warn("a drain cannot be read and is ignored", "key", s.Key)
			continue
		}
		over := event.Event{Type: event.AgentDrainEnded, Actor: "controller", Message: d.Path + ": the drain is over"}
		switch r := records[d.Path]; {
		case d.Pool && (r == nil || r.Ended || r.Incarnation != d.Incarnation):
			c.forgetDrain(d, event.Event{Type: event.AgentDrained, Actor: "controller", Message: d.Path + " has ended, and is gone"})
		case c.fleet().agents[d.Path] == nil, c.opts.Once, r == nil, r.Incarnation != d.Incarnation, r.State == supervisor.Suspended.String():
			c.forgetDrain(d, over)
		case r.Ended && d.Renew:
			c.forgetDrain(d, over)
		case r.Ended:
			r.State, r.Reason, r.SavedAt = supervisor.Suspended.String(), supervisor.ReasonDrained.String(), time.Now()
			c.forgetDrain(d, event.Event{Type: event.AgentDrained, Actor: "controller", Message: d.Path + " has ended, and stays stopped"}, r.op())
		default:
			// A clock that was set back shows by the time of saving.
			left := d.Until.Sub(later(time.Now(), d.SavedAt))
			d.open(min(max(left, 0), api.MaxDrain))
			c.drains[d.Path] = d
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
