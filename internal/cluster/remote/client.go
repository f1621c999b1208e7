package remote

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/store"
)

// ClientOptions configure a Client. All are required.
type ClientOptions struct {
	Node string // the name of the other node, for people
	// Dial connects to the node's listener, by TLS of package mtls and HTTP/1.1.
	Dial   func(ctx context.Context) (net.Conn, error)
	Fence  func() store.Fence // of the controller that uses the client
	Logger *slog.Logger
}

// Client uses the runtimes of another node.
type Client struct {
	o       ClientOptions
	id      string // of this client, for all connections
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	calls   chan struct{} // a semaphore for requests in progress
	starts  chan struct{} // for those that take long
	pings   time.Duration // interval

	mu       sync.Mutex
	link     *link         // nil while there is none
	changed  chan struct{} // closed and replaced when link changes
	since    time.Time     // when link became nil
	why      error
	sessions map[message.Ref]*session // that have not ended
}

// Bounds of a client. A node allows all of it.
const (
	maxCalls   = 1 << 10
	maxStreams = maxRequests - 2*maxCalls // starts, and logs that are followed
)

// NewClient returns a Client, which connects in the background, again and again until it is closed.
func NewClient(o ClientOptions) *Client { return newClient(o, pingInterval) }

func newClient(o ClientOptions, pings time.Duration) *Client {
	c := &Client{
		o: o, id: rand.Text(), calls: make(chan struct{}, maxCalls), starts: make(chan struct{}, maxStreams),
		changed: make(chan struct{}), since: time.Now(), sessions: make(map[message.Ref]*session), pings: pings,
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.running.Go(c.run)
	return c
}

// Close ends the connection. The agents go on, and no session ends because of it.
func (c *Client) Close() error {
	c.mu.Lock()
	c.cancel(slots.ErrClosed)
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.close(slots.ErrClosed)
	}
	c.running.Wait()
	return nil
}

// background runs f in a goroutine that Close waits for; it does nothing if the client is closed.
func (c *Client) background(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() == nil {
		c.running.Go(f)
	}
}

// Pauses between two tries to connect.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// run keeps a connection until the client is closed.
func (c *Client) run() {
	for pause := firstPause; c.ctx.Err() == nil; pause = min(2*pause, lastPause) {
		l, err := c.connect()
		if err == nil {
			pause = firstPause
			err = l.serve()
		}
		c.down(err)
		select {
		case <-time.After(pause):
		case <-c.ctx.Done():
		}
	}
}

// connectTimeout bounds a try to connect.
const connectTimeout = 10 * time.Second

// connect makes a connection and names the sessions of the client on it.
func (c *Client) connect() (*link, error) {
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	nc, in, err := c.upgrade(ctx, Path)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	l := newLink(c, nc, in)
	if err := l.hello(); err != nil {
		nc.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		nc.Close()
		return nil, slots.ErrClosed
	}
	for r := range c.sessions {
		l.refs = append(l.refs, r)
	}
	c.link, c.why = l, nil
	close(c.changed)
	c.changed = make(chan struct{})
	return l, nil
}

// down notes that there is no connection, and why.
func (c *Client) down(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link, c.since = nil, time.Now()
		close(c.changed)
		c.changed = make(chan struct{})
		if c.ctx.Err() == nil {
			c.o.Logger.Warn("the connection to a node is lost; connecting again", "node", c.o.Node, "error", err)
		}
	}
	c.why = err
}

// upgrade opens a connection and upgrades it to frames.
func (c *Client) upgrade(ctx context.Context, path string) (net.Conn, *bufio.Reader, error) {
	nc, err := c.o.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	in := bufio.NewReader(nc)
	// Nodes are known by their certificates: the host says nothing, and is one that every server answers for.
	_, err = fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"+
		"Content-Length: 0\r\n\r\n", path, message.Protocol)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(in, nil) //nolint:bodyclose // its body is the connection
	}
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
		err = fmt.Errorf("it has refused the connection with %s: %.200q", resp.Status, strings.TrimSpace(string(text)))
	}
	if err != nil {
		nc.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, err
	}
	return nc, in, nil
}

// current returns the connection and a channel that is closed when it is replaced; nil if there is none.
func (c *Client) current() (*link, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link, c.changed
}

// silent describes why there is no connection.
func (c *Client) silent() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := c.why
	if why == nil {
		why = errConnecting
	}
	return &silentError{c.o.Node, c.since, why}
}

// silentError is the error of a request to a node without a connection.
type silentError struct {
	node  string
	since time.Time
	why   error
}

func (e *silentError) Error() string {
	return fmt.Sprintf("node %s does not answer since %s: %v", e.node, e.since.Format(time.DateTime), e.why)
}

func (e *silentError) Unwrap() []error { return []error{runtime.ErrUnknown, e.why} }

// patience bounds the time that a request waits for a connection.
const patience = 3 * time.Second

// await returns the connection, for which it waits some time.
func (c *Client) await(ctx context.Context) (*link, error) {
	l, changed := c.current()
	if l != nil {
		return l, nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-changed:
			if l, changed = c.current(); l != nil {
				return l, nil
			}
		case <-late.C:
			return nil, c.silent()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.ctx.Done():
			return nil, slots.ErrClosed
		}
	}
}
