package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"time"
)

// ErrClosed is the end of a connection by Close. ErrEnded is its end by the agent: it has closed its output,
// or its process has ended.
var (
	ErrClosed = errors.New("the connection to the agent is closed")
	ErrEnded  = errors.New("the agent has ended")
)

// message is a JSON-RPC message: a request, a notification if it has no ID, or else a reply.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// outgoing is a message to the agent.
type outgoing struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// pending is a request that the agent has not answered.
type pending struct {
	id     int64
	method string
	reply  chan message // has room for the reply
	// handle is called with the reply before anything that the agent writes after it; it may be nil.
	handle func(json.RawMessage, *Error)
}

// conn is a JSON-RPC connection with a message in each line. One goroutine reads, another one writes, and no
// reply waits for what is done with an earlier message.
type conn struct {
	stdin  io.WriteCloser
	stdout io.ReadCloser
	exit   <-chan string
	grace  time.Duration

	outbox  chan []byte
	closing chan struct{} // closed by close
	done    chan struct{} // closed when the reader has ended
	work    sync.WaitGroup

	mu      sync.Mutex
	next    int64
	pending map[int64]*pending
	cause   error // why it has ended
	closed  bool
	stats   Stats
	noise   string // the first line that is no message
}

const (
	maxLine   = 16 << 20 // bytes of a message
	maxOutbox = 1 << 10  // messages that wait for the agent to read its input
	maxNoise  = 200      // bytes of a line that is no message
)

func newConn(stdin io.WriteCloser, stdout io.ReadCloser, exit <-chan string, grace time.Duration) *conn {
	return &conn{stdin: stdin, stdout: stdout, exit: exit, grace: grace, outbox: make(chan []byte, maxOutbox),
		closing: make(chan struct{}), done: make(chan struct{}), pending: map[int64]*pending{}}
}

// start begins to read and write. handle is called with each request and notification of the agent, and must
// not block. ended is called after the last one.
func (c *conn) start(handle func(message), ended func(violation string)) {
	c.work.Go(func() {
		cause, violation := c.read(handle)
		c.stdout.Close()
		c.mu.Lock()
		c.cause, c.pending = cause, nil
		c.mu.Unlock()
		ended(violation)
		close(c.done)
	})
	c.work.Go(c.write)
}

// close ends the input of the agent, and its output after the grace.
func (c *conn) close() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		close(c.closing)
	}
	force := time.AfterFunc(c.grace, c.force)
	defer force.Stop()
	c.work.Wait()
}

// force ends the input and the output of the agent now.
func (c *conn) force() {
	c.stdin.Close()
	c.stdout.Close()
}

// read reads until the output ends, and returns why it has, and how the agent has violated the protocol.
func (c *conn) read(handle func(message)) (cause error, violation string) {
	lines := lineReader{r: bufio.NewReaderSize(c.stdout, 64<<10)}
	for {
		line, err := lines.next()
		if len(bytes.TrimSpace(line)) > 0 {
			c.receive(line, handle)
		}
		switch {
		case err == nil:
		case errors.Is(err, errLineTooLong):
			return err, err.Error()
		case c.isClosing():
			return ErrClosed, ""
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, fs.ErrClosed):
			return c.awaitExit(), ""
		default:
			return fmt.Errorf("reading from the agent: %w", err), ""
		}
	}
}

// awaitExit waits for the exit of the process, at most for the grace, and returns the cause of the end.
func (c *conn) awaitExit() error {
	if c.isClosing() {
		return ErrClosed
	}
	if c.exit == nil {
		return ErrEnded
	}
	timer := time.NewTimer(c.grace)
	defer timer.Stop()
	select {
	case exit := <-c.exit:
		if exit == "" {
			return ErrEnded
		}
		return fmt.Errorf("%w: %s", ErrEnded, clip(exit))
	case <-c.closing:
		return ErrClosed
	case <-timer.C:
		return fmt.Errorf("%w: it has closed its output, but its process still runs", ErrEnded)
	}
}

// receive handles a line.
func (c *conn) receive(line []byte, handle func(message)) {
	var m message
	if line = bytes.TrimSpace(line); line[0] != '{' || !decode(line, &m) {
		c.mu.Lock()
		c.stats.NotMessages++
		if c.noise == "" {
			c.noise = clipTo(string(line[:min(len(line), 2*maxNoise)]), maxNoise)
		}
		c.mu.Unlock()
		return
	}
	if string(m.ID) == "null" {
		m.ID = nil
	}
	if m.Method != nil {
		handle(m)
		return
	}
	c.reply(m)
}

// reply passes a reply to the call that waits for it.
func (c *conn) reply(m message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	c.mu.Lock()
	p := c.pending[id]
	if err != nil || p == nil {
		c.stats.Stray++
		c.mu.Unlock()
		return
	}
	delete(c.pending, id)
	c.mu.Unlock()
	if m.Error != nil {
		m.Error.Method = p.method
	}
	if p.handle != nil {
		p.handle(m.Result, m.Error)
	}
	p.reply <- m
}

// write writes messages until the connection ends, and then closes the input of the agent. If the agent no
// longer reads, it is about to end, which says more than the failed write.
func (c *conn) write() {
	defer c.stdin.Close()
	for {
		select {
		case line := <-c.outbox:
			if _, err := c.stdin.Write(line); err != nil {
				force := time.AfterFunc(c.grace, c.force)
				<-c.done
				force.Stop()
				return
			}
		case <-c.closing:
			for len(c.outbox) > 0 {
				if _, err := c.stdin.Write(<-c.outbox); err != nil {
					return
				}
			}
			return
		case <-c.done:
			return
		}
	}
}

// post sends a request. handle, if it is not nil, is called with the reply on the goroutine that reads, also if
// await has returned before.
func (c *conn) post(ctx context.Context, method string, params any, handle func(json.RawMessage, *Error)) (
	*pending, error) {
	p := &pending{method: method, reply: make(chan message, 1), handle: handle}
	c.mu.Lock()
	if c.pending == nil {
		err := c.cause
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	c.next++
	p.id = c.next
	c.pending[p.id] = p
	c.mu.Unlock()
	err := c.send(ctx, outgoing{ID: strconv.AppendInt(nil, p.id, 10), Method: method, Params: params})
	if err != nil {
		c.abandon(p)
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return p, nil
}

// await waits for the reply to a request.
func (c *conn) await(ctx context.Context, p *pending) (json.RawMessage, error) {
	var err error
	select {
	case m := <-p.reply:
		return m.value()
	case <-ctx.Done():
		if p.handle == nil {
			c.abandon(p)
		}
		err = context.Cause(ctx)
	case <-c.closing:
		err = ErrClosed
	case <-c.done:
		err = c.err()
	}
	select {
	case m := <-p.reply: // it came first
		return m.value()
	default:
	}
	return nil, fmt.Errorf("%s: %w", p.method, err)
}

// call sends a request and waits for its reply.
func (c *conn) call(ctx context.Context, method string, params any, handle func(json.RawMessage, *Error)) (
	json.RawMessage, error) {
	p, err := c.post(ctx, method, params, handle)
	if err != nil {
		return nil, err
	}
	return c.await(ctx, p)
}

// value returns the result of a reply, or its error.
func (m message) value() (json.RawMessage, error) {
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

func (c *conn) abandon(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, p.id)
}

// notify sends a notification.
func (c *conn) notify(ctx context.Context, method string, params any) error {
	if err := c.send(ctx, outgoing{Method: method, Params: params}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// send queues a message for the agent. It waits while the agent does not read its input.
func (c *conn) send(ctx context.Context, m outgoing) error {
	line, err := m.line()
	if err != nil {
		return err
	}
	select {
	case <-c.closing:
		return ErrClosed
	case <-c.done:
		return c.err()
	default:
	}
	select {
	case c.outbox <- line:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closing:
		return ErrClosed
	case <-c.done:
		return c.err()
	}
}

// answer queues a reply to a request of the agent. It does not wait: an agent that asks and does not read its
// input gets no answer.
func (c *conn) answer(m outgoing) {
	line, err := m.line()
	if err == nil {
		select {
		case c.outbox <- line:
			return
		default:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Unanswered++
}

func (m outgoing) line() ([]byte, error) {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}

func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *conn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil && c.closed {
		return ErrClosed
	}
	return c.cause
}

func (c *conn) counts() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (c *conn) firstNoise() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noise
}
