package far

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/peer"
)

// ClientOptions configure a Client. All are required.
type ClientOptions struct {
	Node string // for people
	// Transport reaches the Server of the node, whichever host the URL of a request names.
	Transport http.RoundTripper
	Logger    *slog.Logger
}

// Client follows calls on another node.
type Client struct {
	o       ClientOptions
	id      string
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	kick    chan struct{} // holds a token if there is something to ask

	mu       sync.Mutex
	last     uint64 // ID of a follower
	queue    []*Follower
	drops    []uint64
	answered time.Time // when the node has answered last
}

const (
	askTimeout = 5 * time.Second
	errorPause = time.Second            // after a request that has failed
	restPause  = 100 * time.Millisecond // before the node is asked for calls for which it had no time
)

// NewClient returns a Client, which works until it is closed.
func NewClient(o ClientOptions) *Client {
	c := &Client{o: o, id: rand.Text(), kick: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(c.run)
	return c
}

// Close ends what is in progress. Followers report what they know.
func (c *Client) Close() {
	c.cancel()
	c.running.Wait()
	if t, ok := c.o.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// run asks the node as long as there is something to ask, until the client is closed.
func (c *Client) run() {
	failed := false
	for c.ctx.Err() == nil {
		req, asked := c.next()
		if req == nil {
			select {
			case <-c.kick:
			case <-c.ctx.Done():
			}
			continue
		}
		a, err := c.ask(req)
		if err == nil {
			failed = false
			if !c.take(asked, a) {
				c.sleep(restPause)
			}
			continue
		}
		c.again(asked, req.Drop)
		if !failed && c.ctx.Err() == nil {
			c.o.Logger.Warn("what command lines use on a node is not known; asking again", "node", c.o.Node,
				"error", err)
		}
		failed = true
		c.sleep(errorPause)
	}
}

func (c *Client) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// want has the node be asked for a call.
func (c *Client) want(f *Follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.queued || f.closed {
		return
	}
	f.queued = true
	c.queue = append(c.queue, f)
	c.rouse()
}

func (c *Client) rouse() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// next returns the next request, and the calls that it asks for; nil if there is none.
func (c *Client) next() (*request, []*Follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := &request{Version: version, Client: c.id}
	n := min(len(c.drops), maxDrops)
	req.Drop, c.drops = c.drops[:n:n], c.drops[n:]
	var asked []*Follower
	for size := 0; len(c.queue) > 0 && len(asked) < maxPolls && size < maxRequest/4; c.queue = c.queue[1:] {
		f := c.queue[0]
		f.queued = false
		if f.closed {
			continue
		}
		p := f.poll()
		if p.Call != nil {
			size += p.Call.size()
		}
		req.Polls, asked = append(req.Polls, p), append(asked, f)
	}
	if len(req.Polls) == 0 && len(req.Drop) == 0 {
		return nil, nil
	}
	return req, asked
}

// again has the node be asked again.
func (c *Client) again(asked []*Follower, drops []uint64) {
	c.mu.Lock()
	c.drops = append(c.drops, drops...)
	c.mu.Unlock()
	for _, f := range asked {
		c.want(f)
	}
}

// ask sends a request and returns the answer.
func (c *Client) ask(req *request) (*answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, askTimeout)
	defer cancel()
	a := new(answer)
	if err := peer.Ask(ctx, c.o.Transport, Path, maxAnswer, req, a); err != nil {
		return nil, err
	}
	if a.Version != version {
		return nil, fmt.Errorf("it speaks version %d; expected %d", a.Version, version)
	}
	c.mu.Lock()
	c.answered = time.Now()
	c.mu.Unlock()
	return a, nil
}

// take takes what the node has answered, and reports whether it has answered for all calls.
func (c *Client) take(asked []*Follower, a *answer) (all bool) {
	answers := make(map[uint64]*polled, len(a.Polls))
	for i := range a.Polls {
		answers[a.Polls[i].ID] = &a.Polls[i]
	}
	all = true
	for _, f := range asked {
		p := answers[f.id]
		if p == nil {
			all = false
			c.want(f)
			continue
		}
		again, err := f.take(p)
		if err != nil {
			c.o.Logger.Warn("what a command line uses on a node is not known", "node", c.o.Node, "error", err)
		}
		all = all && (err == nil && !p.Busy)
		if again {
			c.want(f)
		}
	}
	return all
}

// hasAnswered reports whether the node has answered within a time.
func (c *Client) hasAnswered(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.answered) < within
}

var errUnasked = errors.New("the node does not know a call that was described to it")
