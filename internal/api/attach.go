package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"
)

// Viewer is the client's side of a connection with an agent's terminal.
type Viewer struct {
	Input  io.Reader // nil for viewers that only watch
	Output io.Writer
	Sizes  <-chan [2]uint16 // rows and columns of the viewer's terminal; may be nil
	// Earlier is the number of bytes of this incarnation's earlier output to send first, at most MaxEarlier. 0 sends
	// the last few lines, which may be those of a previous incarnation.
	Earlier int
	// Resized is called with the size of the agent's terminal: before the output, unless the agent was started by an
	// older version, and whenever it changes. It may be nil.
	Resized func(rows, cols uint16)
}

// MaxEarlier bounds Viewer.Earlier, in bytes.
const MaxEarlier = 128 << 10

// AttachFunc connects a viewer with a terminal until the terminal ends or ctx does.
type AttachFunc func(ctx context.Context, path string, v Viewer) error

// attachRequest is the query of a request to attach.
type attachRequest struct {
	Path    string `json:"path" doc:"The agent."`
	Watch   bool   `json:"watch,omitempty" doc:"Only watch; any number may, but one alone may type."`
	Earlier uint64 `json:"earlier,omitempty" maximum:"131072" doc:"Bytes of earlier output at first."`
}

const attachPath = "/attach"

const attachDoc = "The request must have Connection: Upgrade and Upgrade: " + AttachProtocol + ". Then the " +
	"connection carries frames in both directions: a byte that says what it is, the length of the rest in four " +
	"bytes (big endian, at most 32768), the rest. d: data. r: rows and columns of a terminal, two bytes each; to " +
	"the daemon, of that of the client; from the daemon, of that of the agent, at first and when they change. e: the " +
	"end; to the daemon, nothing more is typed; from the daemon, it is over, with nothing or a Failure in JSON. " +
	"Other frames are skipped."

// HandleAttach registers the route that connects clients with terminals.
func HandleAttach(s *Server, attach AttachFunc) {
	s.add(&route{
		method: http.MethodPost, path: "/v" + Version + attachPath, longRunning: true,
		params: paramsOf(reflect.TypeFor[attachRequest]()),
		doc: &routeDoc{
			id: "attach", summary: "Connect with an agent's terminal", returns: "Frames follow.",
			status: http.StatusSwitchingProtocols,
			text:   attachDoc,
		},
		serve: func(c *call) error {
			var req attachRequest
			c.query.decode(&req)
			return c.attach(req, attach)
		},
	})
}

// attach connects the client with a terminal.
func (c *call) attach(req attachRequest, attach AttachFunc) error {
	if !strings.Contains(strings.ToLower(c.r.Header.Get("Connection")), "upgrade") ||
		c.r.Header.Get("Upgrade") != AttachProtocol {
		c.w.Header().Set("Upgrade", AttachProtocol)
		return &unsupported{http.StatusUpgradeRequired,
			fmt.Sprintf("attaching needs Connection: Upgrade and Upgrade: %s, not %.40q", AttachProtocol,
				c.r.Header.Get("Upgrade"))}
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	c.responded = true
	c.attached.Add(1)
	defer c.attached.Done()
	conn, buffered, err := c.rc.Hijack()
	if err != nil {
		c.responded = false
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Time{})
	conn.SetWriteDeadline(time.Now().Add(c.timeouts.write))
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: "+
		"Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n", AttachProtocol, versionHeader, Version); err != nil {
		return nil
	}
	a := &attached{ctx: ctx, sizes: make(chan [2]uint16, 1), inputTimeout: c.timeouts.write}
	var input io.Reader
	if !req.Watch {
		a.typed = make(chan []byte, maxQueuedFrames)
		input = a
	}
	out := &frameWriter{conn: conn, timeout: c.timeouts.write}
	var reading sync.WaitGroup
	reading.Go(func() {
		if !a.receive(buffered.Reader) {
			cancel() // the client is gone, or violates the protocol
		}
	})
	err = attach(ctx, req.Path, Viewer{
		Input: input, Output: out, Sizes: a.sizes, Earlier: int(req.Earlier),
		Resized: func(rows, cols uint16) { out.frame(frameResize, resize([2]uint16{rows, cols})) },
	})
	if c.r.Context().Err() != nil {
		err = c.ended(err)
	}
	var content []byte
	if err != nil {
		_, f := failure(err)
		f.Error = f.Error[:min(len(f.Error), maxFrame/8)] // JSON may need six bytes for one
		content, _ = json.Marshal(f)
	}
	out.frame(frameEnd, content)
	cancel()
	conn.Close()
	reading.Wait()
	return nil
}

// maxQueuedFrames is the maximum number of frames of input that the agent has not read yet.
const maxQueuedFrames = 64

// attached is the input of a client.
type attached struct {
	ctx          context.Context
	sizes        chan [2]uint16
	typed        chan []byte   // closed at the end of the input; nil if the client only watches
	rest         []byte        // of the last frame
	inputTimeout time.Duration // for an agent to read a frame
}

// receive passes on frames until the connection ends. It returns false if the connection is no
// longer useful: it ended without an end frame, or the agent does not read.
func (a *attached) receive(r io.Reader) bool {
	typed := a.typed
	defer func() {
		if typed != nil {
			close(typed)
		}
	}()
	var buf [maxFrame]byte
	for {
		kind, content, err := readFrame(r, &buf)
		switch {
		case err != nil:
			return false
		case kind == frameData && typed != nil && len(content) > 0:
			late := time.NewTimer(a.inputTimeout)
			select {
			case typed <- bytes.Clone(content):
				late.Stop()
			case <-a.ctx.Done():
				late.Stop()
				return true
			case <-late.C: // a blocked frame would hide the end of the client
				return false
			}
		case kind == frameResize && len(content) == 4:
			replaceSize(a.sizes, [2]uint16{binary.BigEndian.Uint16(content), binary.BigEndian.Uint16(content[2:])})
		case kind == frameEnd && a.typed == nil:
			return false // the client only watches, and wants to stop
		case kind == frameEnd && typed != nil:
			close(typed)
			typed = nil
		}
	}
}

// Read returns the input of the client.
func (a *attached) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		select {
		case b, ok := <-a.typed:
			if !ok {
				return 0, io.EOF
			}
			a.rest = b
		case <-a.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// replaceSize sends a size to the channel, in place of one that was not received yet.
func replaceSize(sizes chan [2]uint16, size [2]uint16) {
	for {
		select {
		case sizes <- size:
			return
		default:
		}
		select {
		case <-sizes:
		default:
		}
	}
}

// Attach connects a viewer with the terminal of an agent; see AttachFunc. It ends when the
// input does. It does not wait for a pending Read of the input.
func Attach(ctx context.Context, c *Client, path string, v Viewer) error {
	req := attachRequest{Path: path, Watch: v.Input == nil, Earlier: uint64(v.Earlier)}
	conn, in, err := c.upgrade(ctx, encodeQuery(req))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	out := &frameWriter{conn: conn, timeout: 30 * time.Second}
	if v.Input != nil {
		go func() {
			io.Copy(out, v.Input)
			out.frame(frameEnd, nil)
		}()
	}
	over := make(chan struct{})
	var resizing sync.WaitGroup
	defer resizing.Wait()
	defer close(over)
	resizing.Go(func() {
		for {
			select {
			case size, ok := <-v.Sizes:
				if !ok || out.frame(frameResize, resize(size)) != nil {
					return
				}
			case <-over:
				return
			}
		}
	})
	err = v.receive(in)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// receive writes the output of the terminal until the daemon ends the connection.
func (v Viewer) receive(in io.Reader) error {
	var buf [maxFrame]byte
	for {
		kind, content, err := readFrame(in, &buf)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		switch kind {
		case frameData:
			if _, err := v.Output.Write(content); err != nil {
				return err
			}
		case frameResize:
			if len(content) == 4 && v.Resized != nil {
				v.Resized(binary.BigEndian.Uint16(content), binary.BigEndian.Uint16(content[2:]))
			}
		case frameEnd:
			if len(content) == 0 {
				return nil
			}
			var f Failure
			json.Unmarshal(content, &f) // an unreadable Failure is still a failure
			return f.remote()
		}
	}
}

// upgrade opens a connection and upgrades it to frames.
func (c *Client) upgrade(ctx context.Context, query url.Values) (net.Conn, *bufio.Reader, error) {
	req, err := c.request(ctx, http.MethodPost, attachPath, query, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", AttachProtocol)
	conn, err := c.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in := bufio.NewReader(conn)
	err = req.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(in, req) //nolint:bodyclose // its body is the connection
	}
	if err == nil {
		err = c.check(resp, http.StatusSwitchingProtocols)
	} else {
		err = fmt.Errorf("asking the daemon on %s: %w", c.socket, err)
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, err
	}
	return conn, in, nil
}
