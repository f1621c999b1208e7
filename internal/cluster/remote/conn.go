package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/mtls"
	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// reader has what a client has sent before its connection was upgraded.
type reader = *bufio.ReadWriter

// Bounds of a connection.
const (
	maxRequests = 1 << 14          // in progress
	maxPending  = 256 << 20        // bytes of requests in progress
	maxAnswers  = 2 * maxRequests  // that the client has not read yet
	maxWatched  = 1 << 18          // incarnations
	maxParallel = 16               // sessions that are looked up, and slots that are read, at the same time
	silence     = 30 * time.Second // without a ping, after which a client is taken for gone
	batchSize   = 64 << 10         // bytes that are written together
)

// conn is the connection of a client.
type conn struct {
	s       *Server
	out     message.Writer
	ctx     context.Context // done when the connection is over
	cancel  context.CancelFunc
	read    chan struct{} // closed when nothing more is read
	lookups chan struct{} // a semaphore
	wake    chan struct{} // holds a token while there is something to write

	mu       sync.Mutex
	queue    []*outgoing
	watched  map[*held]bool // true while it is in dirty
	dirty    []*held
	refs     int // that are looked up
	streams  map[uint64]*stream
	outputs  map[uint64]*output // of commands, by request
	ready    []*stream
	requests map[uint64]context.CancelCauseFunc
	pending  int // bytes of requests
}

// outgoing is an answer that is to be written.
type outgoing struct {
	message.Answer
	of   *held // State is its state when the answer is written
	size int   // of the request that ends with this answer
	ends bool  // a request
}

// stream is a request that is answered again and again. What the client has not read yet is replaced.
type stream struct {
	id     uint64
	text   string
	queued bool
}

// errGivenUp ends a request that the client has given up.
var errGivenUp = errors.New("given up by the controller")

// talk serves the connection of a client.
func (s *Server) talk(nc net.Conn, r *http.Request, buffered reader) {
	var hello message.Request
	if _, err := message.Read(buffered, &hello); err != nil || hello.Op != message.OpHello || hello.Client == "" {
		return
	}
	peer, err := mtls.PeerOf(r.TLS)
	if err != nil {
		return
	}
	c := &conn{
		s: s, out: message.Writer{Conn: nc}, read: make(chan struct{}), lookups: make(chan struct{}, maxParallel),
		wake: make(chan struct{}, 1), watched: make(map[*held]bool), streams: make(map[uint64]*stream),
		outputs: make(map[uint64]*output), requests: make(map[uint64]context.CancelCauseFunc),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	defer c.cancel()
	greeting := message.Answer{ID: hello.ID, Version: message.Version}
	if hello.Version != message.Version {
		err := fmt.Errorf("%w: the controller speaks version %d, the node version %d; update the older one",
			runtime.ErrUnsupported, hello.Version, message.Version)
		greeting.Failure = message.NewFailure(err)
	}
	first, err := message.Encode(&greeting)
	if err != nil {
		return
	}
	if greeting.Failure != nil {
		_ = c.out.Send(first) // it is over anyway
		return
	}
	client := peer.Name + " " + hello.Client
	if old := s.replace(client, c); old != nil {
		<-old.read
	}
	if c.out.Send(first) != nil {
		s.forget(client, c)
		close(c.read)
		return
	}
	var working sync.WaitGroup
	defer working.Wait()
	defer c.cancel()
	defer nc.Close()
	working.Go(func() { s.guard(c.ctx, nc, r) })
	working.Go(func() {
		defer nc.Close()
		c.write()
	})
	err = c.receive(buffered, &working)
	s.forget(client, c)
	close(c.read)
	if c.ctx.Err() == nil {
		s.o.Logger.Debug("the connection of a node is over", "node", peer.Name, "error", err)
	}
}

// replace makes a connection that of its client, and closes the one before.
func (s *Server) replace(client string, c *conn) (old *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.clients[client]
	s.clients[client] = c
	s.conns[c] = struct{}{}
	if old != nil {
		message.HangUp(old.out.Conn)
	}
	return old
}

func (s *Server) forget(client string, c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.clients[client] == c {
		delete(s.clients, client)
	}
}

// receive reads requests until the connection is over.
func (c *conn) receive(in io.Reader, working *sync.WaitGroup) error {
	for {
		_ = c.out.Conn.SetReadDeadline(time.Now().Add(silence)) // a closed connection fails below
		req := new(message.Request)
		size, err := message.Read(in, req)
		if err != nil {
			return err
		}
		switch req.Op {
		case message.OpCancel:
			c.mu.Lock()
			cancel := c.requests[req.ID]
			c.mu.Unlock()
			if cancel != nil {
				cancel(errGivenUp)
			}
		case message.OpTaken:
			c.taken(req.ID)
		case message.OpWatch:
			err = c.lookUp(req.Refs, working)
		case message.OpPing:
			err = c.send(&outgoing{Answer: message.Answer{ID: req.ID}})
		default:
			err = c.begin(req, size, working)
		}
		if err != nil {
			return err
		}
	}
}

// begin begins to carry out a request. A start is noted before anything else is read.
func (c *conn) begin(req *message.Request, size int, working *sync.WaitGroup) error {
	base := c.ctx
	if req.Op == message.OpStart {
		base = context.Background() // it goes on without the connection
	}
	ctx, cancel := context.WithCancelCause(base)
	c.mu.Lock()
	var err error
	switch {
	case c.requests[req.ID] != nil || req.ID == 0:
		err = fmt.Errorf("request %d is in progress", req.ID)
	case len(c.requests) >= maxRequests || c.pending+size > maxPending:
		c.mu.Unlock()
		cancel(nil)
		err = errors.New("the node has too many requests of this controller in progress")
		return c.send(&outgoing{Answer: message.Answer{ID: req.ID, Failure: message.NewFailure(err)}})
	default:
		c.requests[req.ID] = cancel
		c.pending += size
	}
	c.mu.Unlock()
	if err != nil {
		cancel(nil)
		return err
	}
	end := func() {}
	if req.Op == message.OpStart {
		end = c.s.begin(req.Slot(), req.Token)
	}
	carryOut := func() {
		o := c.carryOut(ctx, req)
		end()
		cancel(nil)
		o.ID, o.size, o.ends = req.ID, size, true
		_ = c.send(o) // without a connection, nothing waits for it
	}
	if req.Op == message.OpStart {
		go carryOut()
	} else {
		working.Go(carryOut)
	}
	return nil
}

// errFlood ends a connection whose client does not read the answers.
var errFlood = errors.New("the client does not read its answers")

// send queues an answer. The session that it is about is watched from then on.
func (c *conn) send(o *outgoing) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) >= maxAnswers {
		message.HangUp(c.out.Conn)
		return errFlood
	}
	if _, ok := c.watched[o.of]; o.of != nil && !ok {
		c.watched[o.of] = false
		if slots.IsClosed(o.of.finished) { // perhaps before it was watched
			c.watched[o.of] = true
			c.dirty = append(c.dirty, o.of)
		}
	}
	c.queue = append(c.queue, o)
	c.rouse()
	return nil
}

// rouse wakes the writer. Needs mu.
func (c *conn) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// touch has the state of a session sent, if it is watched.
func (c *conn) touch(h *held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dirty, ok := c.watched[h]; ok && !dirty {
		c.watched[h] = true
		c.dirty = append(c.dirty, h)
		c.rouse()
	}
}

// watching returns the watched sessions.
func (c *conn) watching() []*held {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*held, 0, len(c.watched))
	for h := range c.watched {
		all = append(all, h)
	}
	return all
}
