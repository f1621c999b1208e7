package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// Streams are server-sent events (text/event-stream). A message without a name
// is an item, as JSON. One named "end" is the last one of a stream that is
// complete, one named "error" the last one of a stream that failed, with a
// Failure. A stream that ends without either was cut off. Comments are signs of life.
const (
	streamType = "text/event-stream"
	endName    = "end"
	errorName  = "error"
)

const lastEventID = "Last-Event-ID"

// maxLast is how many events can be asked for from the end.
const maxLast = 10_000

func (c *call) events() error {
	after, last := c.query.number("after", 0), c.query.number("last", 0)
	if last > maxLast {
		return fmt.Errorf("%w: parameter last is %d, expected at most %d", ErrInvalid, last, maxLast)
	}
	// It is what the client saw last, however its first request began.
	if id := c.r.Header.Get(lastEventID); id != "" {
		var err error
		if after, err = strconv.ParseUint(id, 10, 64); err != nil {
			return fmt.Errorf("%w: %s is %.100q, expected the number of an event", ErrInvalid, lastEventID, id)
		}
		last = 0
	}
	q := event.Query{
		Filter: event.Filter{Types: c.query.all("type"), Path: c.query.text("path")},
		After:  after, Epoch: c.query.text("epoch"), Last: int(last), Follow: c.query.flag("follow"),
	}
	if err := q.CheckTypes(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return stream(c, func(ctx context.Context) iter.Seq2[event.Event, error] {
		return c.service.Events(ctx, q)
	}, func(e event.Event) string { return strconv.FormatUint(e.Seq, 10) })
}

// stream sends what a sequence yields until it ends or the client is gone. An
// error that comes before the first item is an ordinary answer.
func stream[T any](c *call, open func(context.Context) iter.Seq2[T, error], id func(T) string) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	s := &sender{call: c, cancel: cancel}
	var pulse sync.WaitGroup
	pulse.Go(func() { s.pulse(ctx) })
	// Whatever happens, the other goroutine is gone before the handler is.
	defer pulse.Wait()
	defer cancel()
	for item, err := range open(ctx) {
		if err != nil {
			return s.fail(err)
		}
		data, err := json.Marshal(item)
		if err != nil {
			return s.fail(err)
		}
		var number string
		if id != nil {
			number = id(item)
		}
		if s.send(message{id: number, data: data}) != nil {
			return nil // the client is gone
		}
	}
	if err := ctx.Err(); err != nil {
		return s.fail(err)
	}
	s.send(message{name: endName, data: []byte("{}")})
	return nil
}

// sender writes the messages of one stream.
type sender struct {
	*call
	cancel context.CancelFunc

	mu  sync.Mutex
	err error
}

// pulse keeps a stream visibly alive, and finds out that its client is not.
func (s *sender) pulse(ctx context.Context) {
	timer := time.NewTimer(s.pace.begin)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.write([]byte(": alive\n\n"))
			timer.Reset(s.pace.heartbeat)
		}
	}
}

func (s *sender) send(m message) error { return s.write(m.bytes()) }

func (s *sender) write(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.rc.SetWriteDeadline(time.Now().Add(s.pace.write))
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", streamType)
		s.w.WriteHeader(http.StatusOK)
	}
	if _, s.err = s.w.Write(data); s.err == nil {
		s.err = s.rc.Flush()
	}
	if s.err != nil {
		s.cancel()
	}
	return s.err
}

// fail ends the stream with an error. Where nothing was sent yet the error is the answer.
func (s *sender) fail(err error) error {
	if s.r.Context().Err() != nil {
		err = s.ended(err)
	}
	s.mu.Lock()
	begun := s.begun
	if !begun {
		s.err = err // so that no sign of life comes between
	}
	s.mu.Unlock()
	if !begun {
		return err
	}
	_, f := failure(err)
	data, _ := json.Marshal(f)
	s.send(message{name: errorName, data: data})
	return nil
}

// number reads the id of a message, or says that it is none.
func number(id string) (uint64, bool) {
	n, err := strconv.ParseUint(id, 10, 64)
	return n, err == nil && n < math.MaxUint64
}
