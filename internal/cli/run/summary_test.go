package run

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// What waits for something outside of it has neither failed nor was it delayed.
func TestSummary(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	waits := &supervisor.RetryError{At: time.Now().Add(time.Hour), Err: errors.New("used up")}
	again := supervisor.Decision{Action: supervisor.RestartIt, Delay: time.Second}
	exits := func(err error, d supervisor.Decision) supervisor.Event {
		return supervisor.ChildExited{
			EventHeader: supervisor.EventHeader{Supervisor: "t", ID: "a"},
			Exit:        supervisor.Exit{Kind: supervisor.Failure, Err: err}, Decision: d,
		}
	}
	fails := func(err error) supervisor.Event {
		return supervisor.ChildStartFailed{
			EventHeader: supervisor.EventHeader{Supervisor: "t", ID: "b"}, Err: err, Decision: again,
		}
	}
	for _, c := range []struct {
		events   []supervisor.Event
		expected []string
	}{
		{[]supervisor.Event{exits(waits, again), fails(waits)}, nil},
		{[]supervisor.Event{exits(broken, again), fails(waits)},
			[]string{"backoff:        1 restart delayed, the longest by 1.0s (t/a)"}},
		{[]supervisor.Event{exits(waits, again), fails(broken)},
			[]string{"backoff:        1 restart delayed, the longest by 1.0s (t/b)"}},
		{[]supervisor.Event{exits(broken, supervisor.Decision{})}, []string{"failures: t/a 1x"}},
	} {
		var s summary
		for _, e := range c.events {
			s.note(e)
		}
		if got := s.lines(); !slices.Equal(got, c.expected) {
			t.Errorf("%q, expected %q", got, c.expected)
		}
	}
}
