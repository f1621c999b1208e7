package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// StopReason is why an agent has ended its work on a prompt.
type StopReason string

const (
	EndTurn         StopReason = "end_turn"
	MaxTokens       StopReason = "max_tokens"
	MaxTurnRequests StopReason = "max_turn_requests"
	Refusal         StopReason = "refusal"
	Cancelled       StopReason = "cancelled"
)

// Result is the end of the work on a prompt.
type Result struct {
	StopReason StopReason
	Usage      agentcli.Usage // by this prompt
	Known      bool           // the agent has reported its usage
}

// session is the state of a session. Client.mu guards it.
type session struct {
	id, model string
	loading   bool          // what comes is history
	busy      bool          // the agent works on a prompt
	sent      chan struct{} // closed when the prompt was sent
	cancelled bool          // the client has cancelled the work on the prompt
	ctx       context.Context
	stop      context.CancelFunc // ends the requests for permission of the prompt
	text      text
	cost      cost
	calls     map[string]call // of tools, of the prompt
}

// call describes a call of a tool.
type call struct{ title, kind string }

// maxCalls bounds the calls of a prompt that are described.
const maxCalls = 1000

// text tells the messages of the model apart.
type text struct {
	message string // the ID of the message; many agents give none
	open    bool   // the next text continues it
}

// continues reports whether a text continues the one before it.
func (t *text) continues(message, part string) bool {
	more := t.open && message == t.message
	t.message, t.open = message, more || strings.TrimSpace(part) != ""
	return more
}

// interrupted notes that something else came. A message with an ID can go on after it.
func (t *text) interrupted() {
	if t.message == "" {
		t.open = false
	}
}

// cost is what a session has cost, in dollars.
type cost struct {
	known        bool // what it was before the first prompt is known
	now, counted float64
}

// set records the cost that the agent reports, which includes earlier runs of the session.
func (c *cost) set(dollars float64) {
	if !(dollars >= 0 && dollars < 1e12) {
		return
	}
	if !c.known {
		c.known, c.counted = true, dollars
	}
	c.now = dollars
}

// take returns what was spent since the last call.
func (c *cost) take() float64 {
	spent := max(0, c.now-c.counted)
	c.counted = c.now
	return spent
}

// interrupt ends the requests for permission of the prompt.
func (s *session) interrupt() {
	if s.stop != nil {
		s.stop()
	}
}

// describe completes a request for permission with what the agent has said of the call.
func (s *session) describe(r *PermissionRequest) {
	known := s.calls[r.Call]
	if r.Title == "" {
		r.Title = known.title
	}
	if r.Kind == "" {
		r.Kind = known.kind
	}
}

// note remembers what the agent says of a call.
func (s *session) note(id string, u toolUpdate) {
	known, old := s.calls[id]
	if !old && len(s.calls) >= maxCalls {
		return
	}
	if s.calls == nil {
		s.calls = map[string]call{}
	}
	if u.Title != "" {
		known.title = clip(u.Title)
	}
	if u.Kind != "" {
		known.kind = clip(u.Kind)
	}
	s.calls[id] = known
}

// sessionResult is the result of session/new, session/load and session/resume.
type sessionResult struct {
	ID     string `json:"sessionId"`
	Models struct {
		Current string `json:"currentModelId"`
	} `json:"models"`
	Options []struct {
		Category string          `json:"category"`
		Current  json.RawMessage `json:"currentValue"`
	} `json:"configOptions"`
}

// model returns the model of the session, "" if the agent does not say.
func (r sessionResult) model() string {
	for _, o := range r.Options {
		var name string
		if o.Category == "model" && decode(o.Current, &name) && name != "" {
			return clip(name)
		}
	}
	return clip(r.Models.Current)
}

// begin adds a session that the agent has begun. c.mu is held.
func (c *Client) begin(s *session) {
	c.sessions[s.id] = s
	c.emit(agentcli.Event{Kind: agentcli.Session, Session: s.id, Model: s.model, Version: c.agent.Version}, true)
}

// Prompt has the agent work on a text, and waits until the work has ended and its events were passed on. If the
// context ends before, the agent is told to cancel the work; what it still reports is summed up. The error is an
// *Error if the agent has failed. A session works on one prompt at a time.
func (c *Client) Prompt(ctx context.Context, session, prompt string) (Result, error) {
	s, err := c.turn(session)
	if err != nil {
		return Result{}, err
	}
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var r Result // these are written before the reply is awaited
	var wrong error
	var passed <-chan struct{}
	p, err := c.conn.post(ctx, "session/prompt", struct {
		Session string    `json:"sessionId"`
		Prompt  []content `json:"prompt"`
	}{session, []content{{"text", prompt}}}, func(result json.RawMessage, failed *Error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		r, wrong = c.endTurn(s, result, failed)
		passed = c.events.mark()
	})
	close(s.sent)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.rest()
		return Result{}, err
	}
	_, err = c.conn.await(ctx, p)
	failed, answered := errors.AsType[*Error](err)
	if err != nil && !answered {
		if ctx.Err() != nil {
			c.cancel(s)
		}
		return Result{}, err
	}
	select {
	case <-passed:
	case <-ctx.Done():
	case <-c.conn.closing:
	}
	if answered && r.StopReason == "" {
		return Result{}, failed
	}
	return r, wrong
}

// turn begins the work on a prompt.
func (c *Client) turn(id string) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[id]
	switch {
	case s == nil || s.loading:
		return nil, fmt.Errorf("unknown session %.40q", id)
	case s.busy:
		return nil, fmt.Errorf("session %q is still working on a prompt; wait for its end, or cancel it", id)
	}
	s.busy, s.sent, s.cancelled, s.text, s.calls = true, make(chan struct{}), false, text{}, nil
	s.ctx, s.stop = context.WithCancel(c.ctx)
	c.emit(agentcli.Event{Kind: agentcli.Turn, Session: id}, true)
	return s, nil
}

// endTurn reports the end of the work on a prompt. c.mu is held.
func (c *Client) endTurn(s *session, result json.RawMessage, failed *Error) (Result, error) {
	var r Result
	var o struct {
		StopReason StopReason `json:"stopReason"`
		Usage      usage      `json:"usage"`
	}
	decode(result, &o)
	if r.Usage, r.Known = o.Usage.usage(); r.Known {
		r.Usage.Dollars = s.cost.take()
		c.emit(agentcli.Event{Kind: agentcli.Tokens, Session: s.id, Scope: agentcli.OfPart, Model: s.model,
			Models: agentcli.Models{s.model: r.Usage}}, true)
	}
	var err error
	var f agentcli.Failure
	switch r.StopReason = o.StopReason; {
	case failed != nil && failed.Code == codeCancelled:
		r.StopReason = Cancelled
		f = agentcli.Failure{Code: string(Cancelled)}
	case failed != nil:
		r.StopReason, f = "", failed.Failure()
	case o.StopReason == EndTurn:
	case o.StopReason == "":
		f = agentcli.Failure{Code: protocolError, Text: "the agent has answered a prompt without a stop reason"}
		err = errors.New("session/prompt: " + f.Text)
	default:
		f = agentcli.Failure{Code: clip(string(o.StopReason))}
	}
	f.Source = agentcli.FromStream
	if f.Code != "" || f.Status != 0 {
		c.emit(agentcli.Event{Kind: agentcli.Failed, Session: s.id, Failure: f}, true)
	}
	c.emit(agentcli.Event{Kind: agentcli.Result, Session: s.id, Text: f.Text, Failed: r.StopReason != EndTurn}, true)
	s.rest()
	return r, err
}

// rest ends the state of a prompt.
func (s *session) rest() {
	s.interrupt()
	s.busy, s.ctx, s.stop = false, nil, nil
}

// Cancel tells the agent to end its work on the prompt of a session. Prompt then returns with Cancelled. Requests
// for permission that are open are answered so.
func (c *Client) Cancel(ctx context.Context, session string) error {
	c.mu.Lock()
	s := c.sessions[session]
	if s == nil {
		c.mu.Unlock()
		return fmt.Errorf("unknown session %.40q", session)
	}
	busy, sent := s.busy, s.sent
	c.mu.Unlock()
	if !busy {
		return nil
	}
	select {
	case <-sent: // it must not overtake the prompt
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := c.conn.notify(ctx, "session/cancel", sessionID{session})
	c.markCancelled(s)
	return err
}

// cancel tells the agent to end its work, unless it does not read its input.
func (c *Client) cancel(s *session) {
	c.conn.answer(outgoing{Method: "session/cancel", Params: sessionID{s.id}})
	c.markCancelled(s)
}

func (c *Client) markCancelled(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.busy {
		s.cancelled = true
		s.interrupt()
	}
}
