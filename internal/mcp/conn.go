package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds on the load that a client may cause.
const (
	maxMessage = 2 << 20         // bytes of a line
	maxCalls   = 32              // in progress
	callWait   = 5 * time.Second // for a call to end, before a further one is refused
	drainTime  = 2 * time.Second // for calls to end after the input has ended
)

// conn is a transport over two streams, one message per line. Unlike the transport of the SDK, it
// answers malformed messages with an error instead of closing the connection, and limits the
// calls in progress.
type conn struct {
	out     io.Writer
	lines   chan line
	closed  chan struct{}
	once    sync.Once
	writing chan struct{} // holds a token during a write

	mu          sync.Mutex
	calls       map[jsonrpc.ID]bool // calls without an answer; true once a cancellation was forwarded
	underWay    int                 // calls, including those whose answer is being written
	ended       chan struct{}       // holds a token when a call has ended
	initialised bool

	full bool // the last call was refused; used only by Read
}

// line is a line of the input without its end, or an error.
type line struct {
	text []byte
	err  error
}

var errClosed = errors.New("the connection is closed")

var errTooLong = fmt.Errorf("a message has more than %d bytes", maxMessage)

// newConn reads from in until it ends. To stop it earlier, close in.
func newConn(in io.Reader, out io.Writer) *conn {
	c := &conn{out: out, lines: make(chan line), closed: make(chan struct{}), calls: make(map[jsonrpc.ID]bool),
		ended: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
	go c.readLines(in)
	return c
}

// readLines reads lines in a goroutine of its own, as a read of stdin cannot be interrupted.
func (c *conn) readLines(in io.Reader) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l := readLine(r)
		select {
		case c.lines <- l:
		case <-c.closed:
			return
		}
		if l.err != nil && !errors.Is(l.err, errTooLong) {
			return
		}
	}
}

// readLine reads a line of at most maxMessage bytes, and skips the rest of a longer one. Text
// before the end of the input also counts as a line.
func readLine(r *bufio.Reader) line {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > maxMessage+1 {
			long, text = true, nil
		}
		if !long {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || err == io.EOF):
			return line{err: errTooLong}
		case err == io.EOF && len(text) > 0:
			return line{text: text}
		case err != nil:
			return line{err: err}
		}
		return line{text: text}
	}
}

// Connect implements the SDK's Transport.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements the SDK's Connection.
func (c *conn) SessionID() string { return "" }

// Close implements the SDK's Connection.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// Read returns the next message for the server.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var l line
		select {
		case l = <-c.lines:
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case errors.Is(l.err, errTooLong):
			c.sendError(jsonrpc.CodeInvalidRequest, l.err.Error())
			continue
		case l.err != nil:
			c.drain(ctx)
			return nil, l.err
		}
		if l.text = bytes.TrimSpace(l.text); len(l.text) == 0 {
			continue
		}
		message, err := jsonrpc.DecodeMessage(l.text)
		if err != nil {
			code := int64(jsonrpc.CodeParseError)
			if json.Valid(l.text) {
				code = jsonrpc.CodeInvalidRequest
			}
			c.sendError(code, fmt.Sprintf("not a message of JSON-RPC 2.0: %.200s", err))
			continue
		}
		request, ok := message.(*jsonrpc.Request)
		if !ok {
			continue // a response, although this server sends no requests
		}
		if request.IsCall() && c.admit(ctx, request) || !request.IsCall() && c.forward(request) {
			return request, nil
		}
	}
}

// admit reports whether a call goes on to the server. If not, it answers the call.
func (c *conn) admit(ctx context.Context, r *jsonrpc.Request) bool {
	c.mu.Lock()
	_, twice := c.calls[r.ID]
	c.mu.Unlock()
	if twice {
		c.sendError(jsonrpc.CodeInvalidRequest, fmt.Sprintf("the id %.40v is that of a call that is under way",
			r.ID.Raw()))
		return false
	}
	if r.Method == "subscriptions/listen" { // it would never end
		c.refuse(r, jsonrpc.CodeMethodNotFound, "this server has nothing to subscribe to")
		return false
	}
	wait := callWait
	if c.full {
		wait = 0 // the calls are stuck: do not wait again
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		c.mu.Lock()
		c.full = c.underWay >= maxCalls
		if !c.full {
			c.calls[r.ID] = false
			c.underWay++
		}
		c.mu.Unlock()
		if !c.full {
			return true
		}
		select {
		case <-c.ended:
		case <-late.C:
			c.refuse(r, jsonrpc.CodeInternalError, fmt.Sprintf("%d calls are under way; wait for one of "+
				"them to end, and try again", maxCalls))
			return false
		case <-c.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// forward reports whether a notification goes on to the server. The server queues notifications
// without a bound, so each is forwarded only once.
func (c *conn) forward(r *jsonrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Method {
	case "notifications/initialized":
		first := !c.initialised
		c.initialised = true
		return first
	case "notifications/cancelled":
		var p struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &p) != nil {
			return false
		}
		id, err := jsonrpc.MakeID(p.RequestID)
		if err != nil {
			return false
		}
		cancelled, underWay := c.calls[id]
		if underWay {
			c.calls[id] = true
		}
		return underWay && !cancelled
	}
	return false
}

// drain waits for the calls that came before the end of the input.
func (c *conn) drain(ctx context.Context) {
	late := time.NewTimer(drainTime)
	defer late.Stop()
	for {
		c.mu.Lock()
		left := c.underWay
		c.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-c.ended:
		case <-late.C:
			return
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Write implements the SDK's Connection.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		// Before the write: a client that has the answer may reuse the id.
		c.mu.Lock()
		delete(c.calls, r.ID)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.underWay--
			c.mu.Unlock()
			select {
			case c.ended <- struct{}{}:
			default:
			}
		}()
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.write(data)
}

func (c *conn) write(data []byte) error {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-c.closed:
		return errClosed
	}
	_, err := c.out.Write(append(data, '\n'))
	return err
}

// refuse answers a call that the server does not see. A call of a tool gets the result of a
// failed tool.
func (c *conn) refuse(r *jsonrpc.Request, code int64, why string) {
	response := &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: code, Message: why}}
	if r.Method == "tools/call" {
		result, err := json.Marshal(failure(errors.New(why)))
		if err == nil {
			response = &jsonrpc.Response{ID: r.ID, Result: result}
		}
	}
	if data, err := jsonrpc.EncodeMessage(response); err == nil {
		c.write(data) // if it fails, the next write of the server does, too
	}
}

// sendError reports an error that belongs to no id.
func (c *conn) sendError(code int64, why string) {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil,
		"error": map[string]any{"code": code, "message": why}})
	if err == nil {
		c.write(data)
	}
}
