package orders

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// The audit of orders finds what it is there for.
func TestAudit(t *testing.T) {
	at := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	type told struct {
		kind          event.Type
		order, run    string
		after, second int // of the event, and of the schedule
	}
	type trial struct {
		events       []told
		cool, hand   string
		heard        []uint64
		acknowledged []string
	}
	good := func() trial {
		return trial{
			events: []told{
				{event.OrderFired, "cool", "r-1", 0, 0}, {event.OrderCompleted, "cool", "r-1", 0, 0},
				{event.OrderFired, "hand", "r-2", 0, 0}, {event.OrderCompleted, "hand", "r-2", 0, 0},
			},
			cool: "begin r-1\nend r-1\n", hand: "begin r-2\nend r-2\n", heard: []uint64{2}, acknowledged: []string{"r-2"},
		}
	}
	for what, change := range map[string]func(*trial){
		"":                         func(*trial) {},
		"began 2 times":            func(c *trial) { c.cool += c.cool },
		"began 0 times":            func(c *trial) { c.hand = "" },
		"was fired 0 times":        func(c *trial) { c.cool += "begin r-9\nend r-9\n" },
		"has completed 0 times":    func(c *trial) { c.events = c.events[:3] },
		"while r-1 went on":        func(c *trial) { c.cool = "begin r-1\nbegin r-3\nend r-1\nend r-3\n" },
		"was never handed over":    func(c *trial) { c.heard = nil },
		"was handed over twice":    func(c *trial) { c.heard = []uint64{2, 2} },
		"none of those asked for":  func(c *trial) { c.heard = append(c.heard, 4) },
		"acknowledged, and is not": func(c *trial) { c.acknowledged = append(c.acknowledged, "r-7") },
		"run r-1 of cool":          func(c *trial) { c.events = append(c.events, told{event.OrderFailed, "cool", "r-1", 0, 0}) },
		"after one for": func(c *trial) {
			c.events = append(c.events, told{event.OrderFired, "tick", "r-4", 5, 5}, told{event.OrderFired, "tick", "r-5", 6, 5})
		},
		"there was a time between": func(c *trial) {
			c.events = append(c.events, told{event.OrderFired, "tick", "r-4", 5, 5}, told{event.OrderFired, "tick", "r-5", 9, 7})
		},
		"its reason is \"by hand\"": func(c *trial) { c.events = append(c.events, told{event.OrderFired, "tick", "r-4", 5, -1}) },
	} {
		c := good()
		change(&c)
		a := newAudit()
		for i, e := range c.events {
			reason := "by hand"
			if e.second >= 0 {
				reason = "it is time: " + at.Add(time.Duration(e.second)*time.Second).Format(time.RFC3339)
			}
			a.event(event.Event{Seq: uint64(i + 1), Time: at.Add(time.Duration(e.after) * time.Second), Type: e.kind, Message: "failed"}.
				With(map[string]any{"order": e.order, "run": e.run, "reason": reason}))
		}
		a.journal("cool", c.cool)
		a.journal("hand", c.hand)
		a.hear(c.heard)
		a.acknowledge(c.acknowledged)
		_, err := a.close()
		if what == "" && err != nil || what != "" && (err == nil || !strings.Contains(err.Error(), what)) {
			t.Errorf("%q: found %v", what, err)
		}
	}
}
