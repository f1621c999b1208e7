package notify

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/report"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Source is where a Manager gets what it tells.
type Source struct {
	// Needs returns all that waits for a person now.
	Needs func(context.Context) ([]Need, error)
	// Report returns the report of the time since then.
	Report func(ctx context.Context, since time.Time) (string, error)
	// After is the number of the last event whose consequences are in Needs.
	After uint64
	// WasDown is a need that is told once, or nil.
	WasDown *Need
}

// NewSource returns a Source that tells what coppice report does, as a client sees it. last is the last event before
// this daemon; nil if there was none.
func NewSource(c *api.Client, last *event.Event, started time.Time) Source {
	s := Source{
		Needs: func(ctx context.Context) (all []Need, err error) {
			needs, err := report.Needs(ctx, c)
			for _, n := range needs {
				all = append(all, Need{Subject: n.Subject, State: n.State, Text: n.Text, From: n.From,
					Command: n.Command, NextAt: n.NextAt})
			}
			return all, err
		},
		Report: func(ctx context.Context, since time.Time) (string, error) {
			g, err := report.Gather(ctx, c, since, time.Now())
			return report.New(g).Markdown(), err
		},
	}
	if last == nil {
		return s
	}
	s.After = last.Seq
	switch last.Type {
	case event.ControllerStopped:
	case event.StoreRestored: // the history of another daemon
	default:
		at := func(t time.Time) string { return t.Local().Format(time.DateTime) }
		s.WasDown = &Need{Subject: "daemon", State: string(spec.NotifyDown), Command: "coppice status",
			Text: fmt.Sprintf("the last daemon was killed or has crashed; its last event is of %s, and this one "+
				"started at %s", at(last.Time), at(started))}
	}
	return s
}
