package api

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"
)

// Streams are server-sent events (text/event-stream). A message without a name is an item, as JSON.
// A message named "end" completes a stream; one named "error" ends a stream that failed, with a
// Failure. A stream that ends without either was cut off. Comments keep the connection alive.
const (
	streamType = "text/event-stream"
	endName    = "end"
	errorName  = "error"
)

const streamDoc = "The stream is text/event-stream. A message without a name is an item, in JSON; one named end is " +
	"the last one of a stream that is complete, one named error the last one of a stream that failed, with a " +
	"Failure. A stream that ends without either was cut off. Comments are signs of life, one each 15 s at least. " +
	"An error before the first item is an ordinary answer."

// Stream is a route for people that answers with a sequence of messages, each sent when it is
// ready. The fields of Req are the parameters of the query.
type Stream[Req, Msg any] struct {
	Path string // below /v1
	// Number returns the number of a message, from 1, which is sent as its id. It is nil if
	// messages have no numbers.
	Number func(Msg) uint64
	// Read decodes a message, given the number that it was sent with, or 0. It defaults to
	// json.Unmarshal.
	Read func(number uint64, data []byte) (Msg, error)

	ID      string // operationId of the description
	Summary string // in a few words
	Doc     string // details
	Returns string // the description of the answer
}

// Handle registers the handler of a stream. An error before the first message becomes an ordinary
// answer; the stream ends after an error.
func (r Stream[Req, Msg]) Handle(s *Server, handler func(context.Context, Req) iter.Seq2[Msg, error]) {
	var id func(Msg) string
	if r.Number != nil {
		id = func(m Msg) string { return strconv.FormatUint(r.Number(m), 10) }
	}
	s.add(&route{
		method: http.MethodGet, path: "/v" + Version + r.Path, params: paramsOf(reflect.TypeFor[Req]()),
		answer: *new(Msg), stream: true,
		doc: &routeDoc{id: r.ID, summary: r.Summary, text: r.Doc + " " + streamDoc, returns: r.Returns},
		serve: func(c *call) error {
			var req Req
			c.query.decode(&req)
			return stream(c, func(ctx context.Context) iter.Seq2[Msg, error] { return handler(ctx, req) }, id)
		},
	})
}

// Open yields the messages of a stream. If it was cut off, the last error is ErrLost.
func (r Stream[Req, Msg]) Open(ctx context.Context, c *Client, req Req) iter.Seq2[Msg, error] {
	return r.messages(ctx, c, false, func() (Req, error) { return req, nil })
}

// Follow is Open for a stream that survives the daemon. When the connection is lost, it calls
// next for a new request, and sends that as soon as a daemon answers again. It ends with ErrDown
// if none did for 30 s, and with ErrStopping when a daemon stops in order.
func (r Stream[Req, Msg]) Follow(ctx context.Context, c *Client, next func() (Req, error)) iter.Seq2[Msg, error] {
	return r.messages(ctx, c, true, next)
}

var errReaderDone = errors.New("the reader has enough")

func (r Stream[Req, Msg]) messages(
	ctx context.Context, c *Client, follow bool, next func() (Req, error),
) iter.Seq2[Msg, error] {
	return func(yield func(Msg, error) bool) {
		var state connected
		err := c.reconnect(ctx, follow, &state, func(ctx context.Context) error {
			req, err := next()
			if err != nil {
				state.final = true // another connection would not help
				return err
			}
			return r.connection(ctx, c, req, &state, yield)
		})
		if err != nil && !errors.Is(err, errReaderDone) {
			var none Msg
			yield(none, err)
		}
	}
}

// connection yields the messages of one connection. It returns nil if the stream is complete, and
// ErrLost if it was cut off.
func (r Stream[Req, Msg]) connection(
	ctx context.Context, c *Client, req Req, state *connected, yield func(Msg, error) bool,
) error {
	request, err := c.request(ctx, http.MethodGet, r.Path, encodeQuery(req), nil)
	if err != nil {
		return err
	}
	for m, err := range c.stream(request, func() { state.began, state.open = true, true }) {
		if err != nil {
			// In a fleet, the stream may go on with the next controller.
			state.final = m.name == errorName && !errors.Is(err, ErrNoController)
			return err
		}
		var msg Msg
		if r.Read == nil {
			err = json.Unmarshal(m.data, &msg)
		} else {
			msg, err = r.Read(number(m.id), m.data)
		}
		if err != nil {
			return err
		}
		if !yield(msg, nil) {
			return errReaderDone
		}
	}
	return nil
}

// connected is the state of the connections of one call.
type connected struct {
	began bool // a connection was established at some time
	open  bool // the last connection was established
	final bool // the stream has ended with a final error
}

// reconnect makes one connection after the other, as long as the next one may yield more.
func (c *Client) reconnect(ctx context.Context, follow bool, state *connected,
	connection func(context.Context) error) error {
	err := connection(ctx)
	pause, lost := c.timeouts.retry, time.Now()
	for follow && state.worthTrying(ctx, err) {
		if state.open {
			state.open, pause, lost = false, c.timeouts.retry, time.Now()
		}
		if time.Since(lost) > c.timeouts.noDaemon {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, c.timeouts.maxRetry)
		err = connection(ctx)
	}
	return err
}

// worthTrying reports whether another connection may yield more.
func (s *connected) worthTrying(ctx context.Context, err error) bool {
	if !s.began || s.final || ctx.Err() != nil {
		return false
	}
	// A daemon that is stopping may have a successor.
	return errors.Is(err, ErrLost) || errors.Is(err, ErrDown) || errors.Is(err, ErrStopping)
}

// stream sends the items of a sequence until it ends or the client disconnects. An error before
// the first item becomes an ordinary answer.
func stream[T any](c *call, open func(context.Context) iter.Seq2[T, error], id func(T) string) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	s := &sender{call: c, cancel: cancel}
	var keepAlive sync.WaitGroup
	keepAlive.Go(func() { s.keepAlive(ctx) })
	// The goroutine must end before the handler returns.
	defer keepAlive.Wait()
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

// keepAlive sends comments on a silent stream, and so detects that the client is gone.
func (s *sender) keepAlive(ctx context.Context) {
	timer := time.NewTimer(s.timeouts.begin)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			s.write([]byte(": alive\n\n"))
			timer.Reset(s.timeouts.heartbeat)
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
	s.rc.SetWriteDeadline(time.Now().Add(s.timeouts.write))
	if !s.responded {
		s.responded = true
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

// fail ends the stream with an error. If nothing was sent yet, the error becomes the answer.
func (s *sender) fail(err error) error {
	if s.r.Context().Err() != nil {
		err = s.ended(err)
	}
	s.mu.Lock()
	responded := s.responded
	if !responded {
		s.err = err // keeps keepAlive from starting the stream
	}
	s.mu.Unlock()
	if !responded {
		return err
	}
	_, f := failure(err)
	data, _ := json.Marshal(f)
	s.send(message{name: errorName, data: data})
	return nil
}

// number parses the id of a message. It returns 0 if it is not a number.
func number(id string) uint64 {
	if n, err := strconv.ParseUint(id, 10, 64); err == nil && n < math.MaxUint64 {
		return n
	}
	return 0
}
