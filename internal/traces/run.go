package traces

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/traces/export"
	"github.com/coppice-dev/coppice/internal/traces/spans"
)

const (
	maxBatch   = 256             // spans of a request
	batchDelay = 2 * time.Second // from the first span of a request to the request
	firstRetry = time.Second     // doubled after each failure
	lastRetry  = time.Minute
	finalTime  = 3 * time.Second // for what has happened before the end
)

// run exports spans with the same settings.
type run struct {
	m        *Manager
	settings spec.Traces
	builder  *spans.Builder
	after    uint64 // the last event of the builder
	done     uint64 // the last one whose span was exported already
	epoch    string
	batch    []spans.Span

	connection Connection // nil if there is none
	failing    bool       // it was said that nothing can be exported
	dropped    int64      // spans since then
}

// export exports spans until the settings are others, or ctx ends.
func (m *Manager) export(ctx context.Context, settings spec.Traces) {
	s := m.get()
	if s.After == nil {
		return // ctx has ended
	}
	r := &run{
		m: m, settings: settings, builder: spans.New(s.Numbering), after: s.Since, done: *s.After, epoch: s.Epoch,
	}
	defer r.disconnect()
	following, end := context.WithCancel(ctx)
	events := make(chan event.Event, maxBatch)
	var follower sync.WaitGroup
	follower.Go(func() { m.follow(following, s, events) })
	defer follower.Wait()
	defer end()
	var due <-chan time.Time
	for {
		select {
		case e := <-events:
			r.add(e)
			switch {
			case len(r.batch) >= maxBatch:
				due = nil
				if !r.flush(ctx) {
					return
				}
			case len(r.batch) > 0 && due == nil:
				due = time.After(batchDelay)
			}
			continue
		case <-due:
			due = nil
			if r.flush(ctx) {
				continue
			}
		case <-m.wake:
			if m.Settings().Equal(settings) {
				continue
			}
		case <-ctx.Done():
		}
		break
	}
	end()
	follower.Wait()
	if ctx.Err() != nil {
		r.finish(ctx)
	}
}

// follow sends the events after those of a state, until ctx ends.
func (m *Manager) follow(ctx context.Context, s state, events chan<- event.Event) {
	after := s.Since
	for ctx.Err() == nil {
		for e, err := range m.Log.Events(ctx, event.Query{After: after, Epoch: s.Epoch, Follow: true}) {
			if err != nil {
				break
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
			after, s.Epoch = e.Seq, e.Epoch
		}
		wait(ctx, logPause) // the store has failed
	}
}

// add takes an event.
func (r *run) add(e event.Event) {
	switch {
	case e.Type == event.EventsReset: // it is another log
		r.done = 0
	case e.Type == event.EventsCompacted && e.Seq > r.done:
		r.m.Logger.Warn("events were removed from the log before their spans were exported", "until", e.Seq)
	}
	span := r.builder.Add(e)
	r.after, r.epoch = e.Seq, e.Epoch
	if span != nil && e.Seq > r.done {
		r.batch = append(r.batch, *span)
	}
}

// flush exports the batch, however long that takes. It reports false if ctx or the settings end before.
func (r *run) flush(ctx context.Context) bool {
	delay := firstRetry
	for {
		again, pause := r.send(ctx)
		if !again {
			r.save(ctx)
			return true
		}
		timer := time.After(max(pause, delay))
		delay = min(2*delay, lastRetry)
		for waiting := true; waiting; {
			select {
			case <-timer:
				waiting = false
			case <-r.m.wake:
				if !r.m.Settings().Equal(r.settings) {
					return false
				}
			case <-ctx.Done():
				return false
			}
		}
	}
}

// send sends the batch, and empties it unless it is to be sent again after a pause.
func (r *run) send(ctx context.Context) (again bool, pause time.Duration) {
	if len(r.batch) == 0 {
		return false, 0
	}
	rejected, err := r.request(ctx)
	var failed *export.Error
	switch {
	case err == nil:
		r.batch = nil
		r.delivered(rejected)
		return false, 0
	case errors.As(err, &failed) && failed.Refused:
		r.failed(err, int64(len(r.batch)))
		r.batch = nil
		return false, 0
	case failed != nil:
		pause = failed.Wait
	}
	if ctx.Err() == nil {
		r.failed(err, 0)
	}
	r.disconnect() // secrets are read again
	return true, pause
}

func (r *run) request(ctx context.Context) (rejected int64, err error) {
	if r.connection == nil {
		if r.connection, err = r.m.Connect(r.settings); err != nil {
			return 0, err
		}
	}
	return r.connection.Export(ctx, r.batch)
}

func (r *run) disconnect() {
	if r.connection != nil {
		r.connection.Close()
	}
	r.connection = nil
}

// failed says that spans were not exported, once until some are.
func (r *run) failed(err error, dropped int64) {
	r.dropped += dropped
	if !r.failing {
		r.m.Logger.Warn("cannot export traces; trying again", "endpoint", r.settings.Endpoint, "error", err,
			"dropped", dropped)
	}
	r.failing = true
}

// delivered notes that the receiver takes spans, maybe not all of them.
func (r *run) delivered(rejected int64) {
	if rejected > 0 {
		r.failed(errors.New("the receiver has rejected spans"), rejected)
		return
	}
	if r.failing {
		r.m.Logger.Info("traces are exported again", "endpoint", r.settings.Endpoint, "dropped", r.dropped)
	}
	r.failing, r.dropped = false, 0
}

// save stores up to where the log is exported.
func (r *run) save(ctx context.Context) {
	if r.after < r.done {
		return // those events were exported before
	}
	after, since := r.after, r.after
	if oldest := r.builder.Oldest(); oldest > 0 {
		since = oldest - 1
	}
	r.m.set(ctx, state{Numbering: r.m.get().Numbering, Epoch: r.epoch, After: &after, Since: since})
}

// finish exports what has happened before the end, if the receiver takes it at once. The next daemon does the rest.
func (r *run) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTime)
	defer cancel()
	if r.m.Log.Sync(ctx) != nil {
		return
	}
	for !r.failing {
		events, after, err := r.m.Log.Read(ctx, r.after, event.Filter{}, max(1, maxBatch-len(r.batch)))
		if err != nil {
			return
		}
		for _, e := range events {
			e.Epoch = r.epoch
			r.add(e)
		}
		r.after = max(r.after, after)
		if len(events) > 0 && len(r.batch) < maxBatch {
			continue
		}
		if again, _ := r.send(ctx); again {
			return
		}
		r.save(ctx)
		if len(events) == 0 {
			return
		}
	}
}
