package dispatch

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Environment of runs.
const (
	envOrder      = "COPPICE_ORDER"
	envRun        = "COPPICE_ORDER_RUN"
	envAttempt    = "COPPICE_ORDER_ATTEMPT"
	envReason     = "COPPICE_ORDER_REASON"
	envEvents     = "COPPICE_EVENTS"
	envEvent      = "COPPICE_EVENT"
	maxEventInEnv = 64 << 10
)

// environ returns the environment of the command of the run.
func (r *activeRun) environ(o *spec.Order, events []byte) []string {
	rec := &r.record
	env := append(r.d.o.Environ(o.Env),
		envOrder+"="+rec.Order, envRun+"="+ID(rec.Number), envAttempt+"="+strconv.Itoa(rec.Attempt),
		envReason+"="+strings.ReplaceAll(rec.Reason, "\x00", ""))
	if r.d.o.Span != nil {
		env = r.d.o.Span(ID(rec.Number), rec.Attempt, env)
	}
	if rec.Events == nil {
		return env
	}
	env = append(env, envEvents+"="+strconv.Itoa(rec.Events.Count))
	last := bytes.TrimSuffix(events, []byte("\n"))
	last = last[bytes.LastIndexByte(last, '\n')+1:]
	if len(last) > 0 && len(last) <= maxEventInEnv {
		env = append(env, envEvent+"="+string(last))
	}
	return env
}

// readEvents returns the events that the run is about, as NDJSON.
func (r *activeRun) readEvents(ctx context.Context) ([]byte, error) {
	b := r.record.Events
	if b == nil {
		return nil, nil
	}
	var out bytes.Buffer
	filter := event.Filter{Types: b.Types, Path: b.Path}
	for after := b.After; after < b.Until; {
		found, next, err := r.d.o.Log.Read(ctx, after, filter, 1000)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Seq > b.Until {
				break
			}
			if e.Type == event.EventsCompacted || e.Type == event.EventsReset {
				continue // the events are gone
			}
			if err := event.WriteNDJSON(&out, e); err != nil {
				return nil, err
			}
		}
		if next <= after {
			break
		}
		after = next
	}
	return out.Bytes(), nil
}
