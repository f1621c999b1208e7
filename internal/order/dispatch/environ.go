package dispatch

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
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

func (d *Dispatcher) environ(r *order.Run, o *spec.Order, events []byte) []string {
	env := append(d.o.Environ(o.Env),
		envOrder+"="+r.Order, envRun+"="+ID(r.Number), envAttempt+"="+strconv.Itoa(r.Attempt),
		envReason+"="+strings.ReplaceAll(r.Reason, "\x00", ""))
	if r.Events == nil {
		return env
	}
	env = append(env, envEvents+"="+strconv.Itoa(r.Events.Count))
	last := bytes.TrimSuffix(events, []byte("\n"))
	last = last[bytes.LastIndexByte(last, '\n')+1:]
	if len(last) > 0 && len(last) <= maxEventInEnv {
		env = append(env, envEvent+"="+string(last))
	}
	return env
}

// events are those of a batch, as NDJSON.
func (d *Dispatcher) events(ctx context.Context, b *order.Batch) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	var out bytes.Buffer
	filter := event.Filter{Types: b.Types, Path: b.Path}
	for after := b.After; after < b.Until; {
		found, next, err := d.o.Log.Read(ctx, after, filter, 1000)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Seq > b.Until {
				break
			}
			if e.Type == event.EventsCompacted || e.Type == event.EventsReset {
				continue // what is no longer kept cannot be handed over
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
