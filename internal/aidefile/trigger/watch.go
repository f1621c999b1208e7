package trigger

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
)

// watch starts runs when the triggers of an agent fire, until ctx ends.
func (m *Manager) watch(ctx context.Context, path string, a *agent, file *aidefile.Agent) {
	var crons []aidefile.Trigger
	var schedules []aidefile.Schedule
	for _, t := range file.File.Triggers {
		switch t.Kind {
		case aidefile.Cron:
			crons, schedules = append(crons, t), append(schedules, t.Schedule)
		case aidefile.Issue:
			m.whileUp(ctx, func(ctx context.Context) {
				poll(ctx, file.PollInterval, slowestPoll,
					func(ctx context.Context) error { return m.pollIssues(ctx, path, a, file) })
			})
		}
	}
	if len(schedules) == 0 {
		return
	}
	m.whileUp(ctx, func(ctx context.Context) {
		watchSchedules(ctx, schedules, func(d aidefile.Due) {
			t := crons[d.Index]
			q := runner.RunRequest{Trigger: t.String(), Task: t.Task()}
			if d.Late {
				m.recordSkipped(path, q, fmt.Sprintf("it was due at %s, and the daemon noticed too late",
					d.At.UTC().Format(time.RFC3339)), d.Missed)
				return
			}
			m.fire(ctx, path, q)
		})
	})
}

// whileUp runs f in the background until ctx ends or the daemon begins to stop.
func (m *Manager) whileUp(ctx context.Context, f func(context.Context)) {
	m.Go(func(up context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(up, cancel)()
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-m.Stopping:
				cancel()
			case <-ended:
			}
		}()
		f(ctx)
	})
}

// maxTimer bounds a wait for a schedule, so that a change of the wall clock is noticed.
const maxTimer = 30 * time.Second

// watchSchedules calls fire for each schedule that is due, one at a time, until ctx ends.
// Nothing is due for a time before the call.
func watchSchedules(ctx context.Context, schedules []aidefile.Schedule, fire func(aidefile.Due)) {
	clock := aidefile.NewClock(wallTime(), schedules)
	for {
		next := clock.Next()
		if next.IsZero() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(time.Until(next), maxTimer)):
		}
		for _, due := range clock.Tick(wallTime()) {
			if ctx.Err() != nil {
				return
			}
			fire(due)
		}
	}
}

// wallTime returns the time without a monotonic reading, which stops while the machine sleeps.
func wallTime() time.Time { return time.Now().Round(0) }

// poll calls ask at once and then every interval, until ctx ends. After errors the
// interval doubles, up to slowest.
func poll(ctx context.Context, every, slowest time.Duration, ask func(context.Context) error) {
	pause := every
	for ctx.Err() == nil {
		if ask(ctx) == nil {
			pause = every
		} else {
			pause = max(every, min(2*pause, slowest))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
