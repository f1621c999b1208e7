package report

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
)

// Gathered is all that a Report is made of. Its lists of tasks have at most MaxListed, in priority
// order.
type Gathered struct {
	Since, Now time.Time
	Status     status.Status
	Questions  []question.Question // open ones
	Parked     []task.Task
	Closed     []task.Task // in the period
	Tried      []task.Task // not closed, and an attempt has ended in the period
	Waiting    []task.Task // blocked or deferred
	Ready      int         // number of tasks
	InProgress int
	// Attempts has the attempts at the tasks that are shown in detail, by task; see detailed.
	Attempts map[string][]task.Attempt
	Cost     cost.Report // by agent
	Runs     Tally
}

// Gather asks a daemon, or the records of one that does not run, for what has happened since a time.
func Gather(ctx context.Context, c *api.Client, since, now time.Time) (g Gathered, err error) {
	g = Gathered{Since: since, Now: now, Attempts: make(map[string][]task.Attempt)}
	if err := g.gatherNeeds(ctx, c); err != nil {
		return g, err
	}
	if err := g.gatherTasks(ctx, c); err != nil {
		return g, err
	}
	g.Cost, err = cost.Show.Call(ctx, c, cost.Request{By: cost.ByAgent, Since: since.Local().Format(time.DateOnly)})
	if err != nil {
		return g, err
	}
	q := event.Query{Filter: event.Filter{Types: countedTypes(), Since: since}}
	for e, err := range feed.Events(ctx, c, q) {
		if err != nil {
			return g, err
		}
		if !g.Runs.Add(e) {
			break
		}
	}
	return g, nil
}

func (g *Gathered) gatherTasks(ctx context.Context, c *api.Client) error {
	since := g.Since.Format(time.RFC3339Nano)
	for _, list := range []struct {
		into   *[]task.Task
		filter task.Filter
	}{
		{&g.Closed, task.Filter{Statuses: []string{string(task.Closed)}, EndedSince: since}},
		{&g.Tried, task.Filter{EndedSince: since}},
		{&g.Waiting, task.Filter{Statuses: []string{string(task.Blocked), string(task.Deferred)}}},
	} {
		all, err := task.ListAll(ctx, c, list.filter, MaxListed)
		if err != nil {
			return err
		}
		*list.into = all
	}
	for _, count := range []struct {
		into   *int
		filter task.Filter
	}{
		{&g.Ready, task.Filter{Ready: true}},
		{&g.InProgress, task.Filter{Statuses: []string{string(task.InProgress)}}},
	} {
		counted, err := task.Count.Call(ctx, c, count.filter)
		if err != nil {
			return err
		}
		*count.into = counted.Count
	}
	for _, id := range g.detailed() {
		d, err := task.Show.Call(ctx, c, task.ShowRequest{ID: id, Brief: true})
		if errors.Is(err, api.ErrNotFound) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		g.Attempts[id] = d.Attempts
	}
	return nil
}
