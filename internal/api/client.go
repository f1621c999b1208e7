package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
)

// Client is the other side of the protocol: a Service that asks a daemon. Its
// methods may be called from many goroutines; each gives up when its context ends.
type Client struct {
	socket string
	token  string // of the agent that this program is part of; empty if of none
	agent  bool   // it acts as that agent; for people if not
	open   func(context.Context) (net.Conn, error)
	end    func() // ends what answers, if that is in this process; or nil
	http   *http.Client
	pace   clientPace
}

// clientPace is how patient a client is with a stream.
type clientPace struct {
	silence  time.Duration // on a stream, until it is taken for dead
	retry    time.Duration // before the first attempt to go on, doubled each time
	maxRetry time.Duration
	patience time.Duration // without any daemon, until following ends
}

// maxAnswer bounds an answer that is not a stream, in bytes.
const maxAnswer = 256 << 20

var _ Service = (*Client)(nil)

// Dial returns a client of the daemon at a socket, see SocketPath. It does not
// connect yet: each call does, and fails with ErrDown without a listener.
func Dial(socket string) *Client {
	c := newClient(nil)
	c.socket, c.open = socket, func(ctx context.Context) (net.Conn, error) { return connect(ctx, socket, c.pace) }
	return c
}

func newClient(open func(context.Context) (net.Conn, error)) *Client {
	c := &Client{open: open, pace: clientPace{
		silence: 3 * heartbeat, retry: 20 * time.Millisecond, maxRetry: time.Second, patience: 30 * time.Second,
	}}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.open(ctx) },
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close lets go of the connections that are kept for later calls.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	if c.end != nil {
		c.end()
	}
}

// Reach fails with ErrDown if no daemon listens.
func (c *Client) Reach(ctx context.Context) error {
	conn, err := c.open(ctx)
	if err == nil {
		conn.Close()
	}
	return err
}

// connect opens a connection to a daemon of this user.
func connect(ctx context.Context, path string, pace clientPace) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	// The queue of the socket is full: many come at once.
	for late := time.Now().Add(pace.patience); errors.Is(err, unix.EAGAIN) && time.Now().Before(late); {
		select {
		case <-time.After(pace.retry):
			conn, err = d.DialContext(ctx, "unix", path)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%w here (nothing is listening on %s); start it with: coppice up -d", ErrDown, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, foreign(path, os.Geteuid(), err)
	case err != nil:
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	if uid, _, err := peer(socket); err != nil || !trusted(uid) {
		conn.Close()
		if err == nil {
			err = fmt.Errorf("user %d listens there", uid)
		}
		return nil, fmt.Errorf("%s is not your daemon's: %w", path, err)
	}
	return socket, nil
}

// request makes a request; its host is a name that means nothing.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, body any) (*http.Request, error) {
	u := url.URL{Scheme: "http", Host: "coppice", Path: "/v" + Version + path, RawQuery: query.Encode()}
	var content io.Reader
	if body != nil {
		data, err := marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// do sends a request and returns the answer if it is a success.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the URL says nothing to anybody
		}
		switch {
		case req.Context().Err() != nil:
			return nil, context.Cause(req.Context())
		case errors.Is(err, ErrDown), errors.Is(err, ErrUnauthorized):
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err := c.check(resp, http.StatusOK, http.StatusNoContent); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// check returns the error that an answer is, nil if its status is one of a success.
func (c *Client) check(resp *http.Response, success ...int) error {
	if v := resp.Header.Get(versionHeader); v != Version {
		return fmt.Errorf("what answers on %s is no daemon of this version: "+
			"it answered %s (version %.20q, expected %q)",
			c.socket, resp.Status, v, Version)
	}
	for _, s := range success {
		if resp.StatusCode == s {
			return nil
		}
	}
	var f Failure
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(data, &f) != nil || f.Code == "" {
		return fmt.Errorf("the daemon answered %s: %.200q", resp.Status, data)
	}
	return f.remote()
}

// call asks and reads the answer into a value, if there is one.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	resp, err := c.do(req)
	if method == http.MethodGet && errors.Is(err, ErrLost) {
		// A daemon that ends drops connections that it has not served yet. Its
		// successor can be asked, or there is none.
		if req, err = c.request(ctx, method, path, query, body); err == nil {
			resp, err = c.do(req)
		}
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer == nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(data, answer)
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("reading the answer of the daemon: %w", err)
	}
	return nil
}

func withPath(path string) url.Values {
	q := url.Values{}
	if path != "" {
		q.Set("path", path)
	}
	return q
}

// Act implements Service.
func (c *Client) Act(ctx context.Context, path string, action Action) (done Acted, err error) {
	return done, c.call(ctx, "POST", "/act", nil, ActRequest{path, action}, &done)
}

// Down implements Service.
func (c *Client) Down(ctx context.Context, keep bool) error {
	return c.call(ctx, "POST", "/down", nil, DownRequest{keep}, nil)
}

// Events implements Service. While it follows, it survives the daemon: when
// the connection is lost it goes on after the last event as soon as a daemon
// answers again, and ends with ErrDown when none did for 30 s. A daemon that
// stops in order ends it with ErrStopping.
func (c *Client) Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
	query := withPath(q.Path)
	query["type"] = q.Types
	query.Set("follow", strconv.FormatBool(q.Follow))
	query.Set("after", strconv.FormatUint(q.After, 10))
	if q.Epoch != "" {
		query.Set("epoch", q.Epoch)
	}
	if q.Last > 0 {
		query.Set("last", strconv.Itoa(q.Last))
	}
	return func(yield func(event.Event, error) bool) {
		f := &following{client: c, query: query, cursor: q.After, yield: yield}
		if err := c.goOn(ctx, q.Follow, &f.connected, f.connection); err != nil && !errors.Is(err, errEnough) {
			yield(event.Event{}, err)
		}
	}
}

var errEnough = errors.New("the reader has enough")

// connected is what is known of the connections of one call.
type connected struct {
	began bool // a connection was there before
	open  bool // the last one was there
	told  bool // the stream itself said how it ended
}

// goOn makes one connection after the other, as long as the next one may bring more.
func (c *Client) goOn(ctx context.Context, follow bool, state *connected,
	connection func(context.Context) error) error {
	err := connection(ctx)
	pause, lost := c.pace.retry, time.Now()
	for follow && state.worthTrying(ctx, err) {
		if state.open {
			state.open, pause, lost = false, c.pace.retry, time.Now()
		}
		if time.Since(lost) > c.pace.patience {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, c.pace.maxRetry)
		err = connection(ctx)
	}
	return err
}

// worthTrying reports whether another connection may bring more.
func (s *connected) worthTrying(ctx context.Context, err error) bool {
	if !s.began || s.told || ctx.Err() != nil {
		return false
	}
	// A daemon that refuses because it stops may have a successor.
	return errors.Is(err, ErrLost) || errors.Is(err, ErrDown) || errors.Is(err, ErrStopping)
}

// following is the events of one call, over any number of connections.
type following struct {
	connected
	client *Client
	query  url.Values
	cursor uint64 // the last event that was yielded
	yield  func(event.Event, error) bool
}

// connection yields what comes over one connection: nil when the stream is
// complete, ErrLost when it was cut off.
func (f *following) connection(ctx context.Context) error {
	if f.began {
		f.query.Set("after", strconv.FormatUint(f.cursor, 10)) // also back at 0
	}
	req, err := f.client.request(ctx, "GET", "/events", f.query, nil)
	if err != nil {
		return err
	}
	if f.began && f.cursor > 0 {
		req.Header.Set(lastEventID, strconv.FormatUint(f.cursor, 10))
	}
	for m, err := range f.client.stream(req, func() { f.began, f.open = true, true }) {
		if err != nil {
			f.told = m.name == errorName
			return err
		}
		var e event.Event
		if err := json.Unmarshal(m.data, &e); err != nil {
			e = event.Event{Type: event.Unreadable, Message: err.Error()}
		}
		if n, ok := number(m.id); ok {
			// Only a log that was made again goes back.
			if n <= f.cursor && e.Type != event.EventsReset {
				continue
			}
			f.cursor, e.Seq = n, n
		}
		if e.Epoch != "" {
			f.query.Set("epoch", e.Epoch)
		}
		if !f.yield(e, nil) {
			return errEnough
		}
	}
	return nil
}

// stream yields the items of a stream until it is complete. The error that it
// failed with comes with its message; a stream that was cut off, or on which there
// was silence for too long, yields ErrLost. It calls opened when there is a connection.
func (c *Client) stream(req *http.Request, opened func()) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		ctx, cancel := context.WithCancelCause(req.Context())
		defer cancel(nil)
		silence := time.AfterFunc(c.pace.silence, func() { cancel(ErrLost) })
		defer silence.Stop()
		resp, err := c.do(req.WithContext(ctx))
		if err != nil {
			yield(message{}, err)
			return
		}
		defer resp.Body.Close()
		opened()
		alive := &pulseReader{r: resp.Body, beat: func() { silence.Reset(c.pace.silence) }}
		for m, err := range readMessages(alive) {
			silence.Stop() // the reader of this sequence may be slow
			switch {
			case errors.Is(err, errMessageTooLong):
				yield(message{}, err)
				return
			case err != nil && req.Context().Err() != nil:
				yield(message{}, context.Cause(req.Context()))
				return
			case err != nil:
				yield(message{}, fmt.Errorf("%w: %w", ErrLost, err))
				return
			case m.name == endName:
				return
			case m.name == errorName:
				var f Failure
				json.Unmarshal(m.data, &f) // what cannot be read is a failure, too
				yield(m, f.remote())
				return
			case m.name == "" && !yield(m, nil): // other names are of a later version
				return
			}
			silence.Reset(c.pace.silence)
		}
	}
}

// pulseReader tells of each read that brought something.
type pulseReader struct {
	r    io.Reader
	beat func()
}

func (p *pulseReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.beat()
	}
	return n, err
}
