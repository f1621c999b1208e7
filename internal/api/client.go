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
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
)

// Client is a client of a daemon. Its methods are safe for concurrent use; each gives up when its
// context ends.
type Client struct {
	socket   string
	token    string // of the agent that this program is part of, or ""
	agent    bool   // it acts as that agent, instead of as a person
	open     func(context.Context) (net.Conn, error)
	end      func() // stops a server in this process; may be nil
	http     *http.Client
	timeouts clientTimeouts
}

// clientTimeouts are the timeouts of a client.
type clientTimeouts struct {
	silence  time.Duration // of a stream, after which it counts as lost
	retry    time.Duration // delay of the first reconnection, doubled each time
	maxRetry time.Duration
	noDaemon time.Duration // without a daemon, after which following ends
}

// maxAnswer is the maximum size of an answer that is not a stream, in bytes.
const maxAnswer = 256 << 20

// Dial returns a client of the daemon at a socket; see endpoint.Path. It does not connect yet:
// each call does, and fails with ErrDown if no daemon listens.
func Dial(socket string) *Client {
	c := newClient(nil)
	c.socket, c.open = socket, func(ctx context.Context) (net.Conn, error) { return connect(ctx, socket, c.timeouts) }
	return c
}

// DialAgent is Dial for an agent that acts as itself: each request carries its token.
func DialAgent(socket, token string) *Client {
	c := DialFrom(socket, token)
	c.agent = true
	return c
}

// DialFrom is Dial for a command for people that runs in an agent. It sends the token of the
// agent, so the daemon only lets it read.
func DialFrom(socket, token string) *Client {
	c := Dial(socket)
	c.token = token
	return c
}

func newClient(open func(context.Context) (net.Conn, error)) *Client {
	c := &Client{open: open, timeouts: clientTimeouts{
		silence: 3 * heartbeat, retry: 20 * time.Millisecond, maxRetry: time.Second, noDaemon: 30 * time.Second,
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

// Close closes idle connections, and stops a local server.
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
func connect(ctx context.Context, path string, timeouts clientTimeouts) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	// EAGAIN means that the queue of the socket is full: many clients connect concurrently.
	for late := time.Now().Add(timeouts.noDaemon); errors.Is(err, unix.EAGAIN) && time.Now().Before(late); {
		select {
		case <-time.After(timeouts.retry):
			conn, err = d.DialContext(ctx, "unix", path)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%w here (nothing is listening on %s); start it with: coppice up -d", ErrDown, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, permissionError(path, os.Geteuid(), err)
	case err != nil:
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	if uid, _, err := endpoint.Peer(socket); err != nil || !endpoint.Trusted(uid) {
		conn.Close()
		if err == nil {
			err = fmt.Errorf("user %d listens there", uid)
		}
		return nil, fmt.Errorf("%s is not your daemon's: %w", path, err)
	}
	return socket, nil
}

// request builds a request. Its host name has no meaning.
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

// do sends a request and returns the response if it is a success.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // drop the URL, which has no information
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

// check returns the error in a response, or nil if its status is one of success.
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

// call sends a request and decodes the response into answer, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	resp, err := c.do(req)
	if method == http.MethodGet && errors.Is(err, ErrLost) {
		// A daemon that stops drops connections that it has not served yet. Try once more:
		// its successor answers, or there is none.
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

// stream yields the messages of a stream until it is complete. If the stream failed, the error
// comes with its message. A stream that was cut off, or silent for too long, yields ErrLost. It
// calls opened when the connection is established.
func (c *Client) stream(req *http.Request, opened func()) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		ctx, cancel := context.WithCancelCause(req.Context())
		defer cancel(nil)
		silence := time.AfterFunc(c.timeouts.silence, func() { cancel(ErrLost) })
		defer silence.Stop()
		resp, err := c.do(req.WithContext(ctx))
		if err != nil {
			yield(message{}, err)
			return
		}
		defer resp.Body.Close()
		opened()
		alive := &activityReader{r: resp.Body, onRead: func() { silence.Reset(c.timeouts.silence) }}
		for m, err := range readMessages(alive) {
			silence.Stop() // the consumer of this sequence may be slow
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
				json.Unmarshal(m.data, &f) // an unreadable Failure is still a failure
				yield(m, f.remote())
				return
			case m.name == "" && !yield(m, nil): // other names belong to later versions
				return
			}
			silence.Reset(c.timeouts.silence)
		}
	}
}

// activityReader calls onRead after each read that returned data.
type activityReader struct {
	r      io.Reader
	onRead func()
}

func (p *activityReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.onRead()
	}
	return n, err
}

// Retry calls do until it reaches a daemon that is ready, for at most limit. It returns the last
// error of do, or the cause of ctx.
func Retry(ctx context.Context, limit time.Duration, do func() error) error {
	deadline := time.Now().Add(limit)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do()
		if !errors.Is(err, ErrDown) && !errors.Is(err, ErrStopping) && !errors.Is(err, ErrLost) ||
			time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
