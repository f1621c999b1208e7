// Package acp is a client of the Agent Client Protocol, version 1, over the standard input and output of
// an agent. Everything that the agent says becomes events of package agentcli, so that agentcli.Classify
// explains the end of its run. The client starts no process: see Dial.
//
// # Trust
//
// The agent is not trusted. Lines are bounded, what is not a message is counted and ignored, and a flood of
// messages uses bounded memory. The client offers neither files nor terminals, and refuses what the agent
// asks permission for unless Options.Permit allows it.
//
// # Tokens
//
// The usage in the result of a prompt is that of the prompt, and is what counts. The number in a
// usage_update is the size of the context, which is no sum of tokens; its cost is cumulative, and the
// increase during a prompt is added to the usage of the prompt.
package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Options are the options of Dial. The zero value refuses every permission.
type Options struct {
	// Name and Version introduce the client to the agent. An empty name is "coppice".
	Name, Version string
	// InitializeTimeout bounds the wait for the first answer. 0 means 30 s.
	InitializeTimeout time.Duration
	// Grace bounds the wait for the end of the agent's output in Close, and for Exit. 0 means 5 s.
	Grace time.Duration
	// Permit decides on requests for permission; nil refuses all. It may block until its context ends, and
	// is called concurrently.
	Permit Policy
	// Event is called with each event, one after the other and in their order. While it is slow, events wait
	// in bounded memory and more are dropped, see Stats; the Report misses none. It must not call Prompt or
	// Close.
	Event func(agentcli.Event)
	// Exit receives how the process has ended, such as "exit code 1". It is read after the end of the agent's
	// output, to say so in errors. It may be nil.
	Exit <-chan string
}

// Agent is what an agent says of itself.
type Agent struct {
	Name, Version       string
	Load, Resume, Close bool // it supports session/load, session/resume, session/close
}

// Client is a connection to an agent. Its methods may be called concurrently.
type Client struct {
	conn   *conn
	events *queue
	agent  Agent
	permit Policy

	ctx  context.Context // of requests of the agent; ends with the connection
	stop context.CancelFunc
	work sync.WaitGroup // requests that Permit decides on, and the delivery of events

	mu       sync.Mutex
	stream   agentcli.Stream
	sessions map[string]*session
	open     map[string]context.CancelFunc // requests for permission, by their ID
}

// Stats counts what the agent has done against the protocol.
type Stats struct {
	NotMessages int // lines that are no messages
	Stray       int // replies to no request, such as a second one
	Unanswered  int // requests without a reply, since the agent does not read its input
	Dropped     int // events that Options.Event has missed, since it was too slow
}

const (
	protocolVersion   = 1
	initializeTimeout = 30 * time.Second
	defaultGrace      = 5 * time.Second
	maxID             = 512 // bytes of the ID of a session
)

// Dial introduces the client to an agent that reads stdin and writes stdout. Closing these must end a Read
// or Write that is in progress, as it does for pipes. The client closes them in any case: if Dial fails, when
// the agent ends its output, and in Close.
func Dial(ctx context.Context, stdin io.WriteCloser, stdout io.ReadCloser, o Options) (*Client, error) {
	o.Name, o.Version = cmp.Or(o.Name, "coppice"), cmp.Or(o.Version, "unknown")
	o.InitializeTimeout, o.Grace = cmp.Or(o.InitializeTimeout, initializeTimeout), cmp.Or(o.Grace, defaultGrace)
	c := newClient(stdin, stdout, o)
	c.start()
	if err := c.initialize(ctx, o); err != nil {
		c.conn.force()
		c.Close()
		return nil, err
	}
	return c, nil
}

func newClient(stdin io.WriteCloser, stdout io.ReadCloser, o Options) *Client {
	c := &Client{permit: o.Permit, events: newQueue(o.Event), sessions: map[string]*session{},
		open: map[string]context.CancelFunc{}, stream: agentcli.Stream{CLI: agentcli.ACP}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.conn = newConn(stdin, stdout, o.Exit, o.Grace)
	return c
}

// start begins to read, to write and to pass events on.
func (c *Client) start() {
	if c.events.each != nil {
		c.work.Go(c.events.deliver)
	}
	c.conn.start(c.message, c.ended)
}

func (c *Client) initialize(ctx context.Context, o Options) error {
	late := fmt.Errorf("the agent has not answered initialize within %v; is it an ACP agent?", o.InitializeTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, o.InitializeTimeout, late)
	defer cancel()
	type fs struct {
		Read  bool `json:"readTextFile"`
		Write bool `json:"writeTextFile"`
	}
	type capabilities struct {
		FS       fs   `json:"fs"`
		Terminal bool `json:"terminal"`
	}
	type info struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	result, err := c.conn.call(ctx, "initialize", struct {
		Version      int          `json:"protocolVersion"`
		Capabilities capabilities `json:"clientCapabilities"`
		Client       info         `json:"clientInfo"`
	}{protocolVersion, capabilities{}, info{o.Name, o.Version}}, nil)
	if errors.Is(err, late) {
		err = late
	}
	if err != nil {
		if _, answered := errors.AsType[*Error](err); !answered {
			if first := c.conn.firstNoise(); first != "" {
				err = fmt.Errorf("%w (its output begins with %q)", err, first)
			}
		}
		return err
	}
	var r struct {
		Version      *json.Number `json:"protocolVersion"`
		Info         info         `json:"agentInfo"`
		Capabilities struct {
			Load    bool `json:"loadSession"`
			Session struct {
				Resume json.RawMessage `json:"resume"`
				Close  json.RawMessage `json:"close"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
	}
	if !decode(result, &r) || r.Version == nil {
		return errors.New("initialize: the agent has answered without a version; is it an ACP agent?")
	}
	if v := r.Version.String(); v != fmt.Sprint(protocolVersion) {
		return fmt.Errorf("initialize: the agent speaks version %.20s of ACP, expected %d", v, protocolVersion)
	}
	can := r.Capabilities
	c.agent = Agent{clip(r.Info.Name), clip(r.Info.Version), can.Load, present(can.Session.Resume),
		present(can.Session.Close)}
	return nil
}

// Agent returns what the agent says of itself.
func (c *Client) Agent() Agent { return c.agent }

// Report sums up what the agent has reported in all sessions.
func (c *Client) Report() agentcli.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream.Report()
}

// Stats returns what the agent has done against the protocol so far.
func (c *Client) Stats() Stats {
	s := c.conn.counts()
	s.Dropped = c.events.missed()
	return s
}

// Done returns a channel that is closed when the agent has ended its output, or the client is closed. Err
// then says why.
func (c *Client) Done() <-chan struct{} { return c.conn.done }

// Err returns why the connection has ended, nil while it has not: ErrClosed after Close, an error that is
// ErrEnded when the agent has ended.
func (c *Client) Err() error { return c.conn.err() }

// Close ends the input of the agent and waits for the end of its output, at most for Options.Grace. It
// returns when the last event has been passed on.
func (c *Client) Close() {
	c.conn.close()
	c.work.Wait()
}

// ended is called when the connection has ended, with what the agent has done wrong, if it was that.
func (c *Client) ended(violation string) {
	c.mu.Lock()
	if violation != "" {
		c.emit(agentcli.Event{Kind: agentcli.Failed, Failure: agentcli.Failure{Code: protocolError, Text: violation,
			Source: agentcli.FromStream}}, true)
	}
	c.mu.Unlock()
	c.stop()
	c.events.close()
}

// emit passes an event on, and sums it up if it is of a prompt. c.mu is held.
func (c *Client) emit(e agentcli.Event, sum bool) {
	if sum {
		c.stream.Add(e)
	}
	c.events.add(e)
}

// failed reports a failed request. c.mu is held.
func (c *Client) failed(e *Error) {
	c.emit(agentcli.Event{Kind: agentcli.Failed, Failure: e.Failure()}, true)
}

// present reports whether a capability is there.
func present(v json.RawMessage) bool {
	return len(v) > 0 && string(v) != "null" && string(v) != "false"
}
