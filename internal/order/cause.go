package order

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
)

// causes tracks which orders have led to an event, so that no order fires on its own effects, also
// through other orders. It uses the log: order.fired names the causes of a run, and the order of a
// run is the actor of the actions that the run requests from the daemon.
type causes struct {
	runs map[string]*chains // by order
}

// chains holds the causes of the runs of an order that have not ended. An event names only
// its order, so the causes of all its runs count.
type chains struct {
	open map[string][]string // by run
	last []string            // of the run that was fired last
}

// chainsOf returns the chains of an order.
func (c *causes) chainsOf(order string) *chains {
	if c.runs == nil {
		c.runs = make(map[string]*chains)
	}
	ch := c.runs[order]
	if ch == nil {
		ch = &chains{open: make(map[string][]string)}
		c.runs[order] = ch
	}
	return ch
}

// fired records the causes of the run that an order begins now.
func (c *causes) fired(order string, of []string) { c.chainsOf(order).last = of }

// began records the causes of a run, and ended that it has no further effects.
func (c *causes) began(order, run string, of []string) { c.chainsOf(order).open[run] = of }

func (c *causes) ended(order, run string) {
	if ch := c.runs[order]; ch != nil {
		delete(ch.open, run)
	}
}

// of returns an order and all that have led to its runs.
func (c *causes) of(order string) []string {
	all := []string{order}
	if ch := c.runs[order]; ch != nil {
		all = joined(all, ch.last)
		for _, of := range ch.open {
			all = joined(all, of)
		}
	}
	return all
}

// orderOf returns the order that an event is about, or that is its actor; "" if none.
func orderOf(e event.Event) string {
	if name, ok := strings.CutPrefix(e.Path, PathOf("")); ok {
		return name
	}
	if name, ok := strings.CutPrefix(e.Actor, PathOf("")); ok {
		return name
	}
	return ""
}

// observe updates the causes of runs from an event.
func (c *causes) observe(e event.Event) {
	if e.Type != event.OrderFired && e.Type != event.OrderCompleted && e.Type != event.OrderFailed {
		return
	}
	var data struct {
		Order, Run string
		Causes     []string
		Again      bool
	}
	if e.Decode(&data) != nil || data.Order == "" {
		return
	}
	switch {
	case e.Type == event.OrderFired:
		c.began(data.Order, data.Run, data.Causes)
	case !data.Again:
		c.ended(data.Order, data.Run)
	}
}

// joined merges two sorted lists without duplicates.
func joined(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
