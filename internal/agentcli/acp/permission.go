package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Policy decides on a request for permission: it returns the ID of one of its options, or "" to refuse. The
// context ends when the agent no longer waits for the answer.
type Policy func(ctx context.Context, r PermissionRequest) (option string)

// PermissionRequest asks whether a tool may be called.
type PermissionRequest struct {
	Session string
	Call    string // the ID of the call
	Title   string // what the tool is about to do, for people
	Kind    string // read, edit, delete, move, search, execute, think, fetch or other; empty if not said
	Options []Option
}

// Allow returns a policy that allows each call of tools of some kinds, one at a time, and of the tools of an MCP
// server. It refuses all others. The settings of the agent decide what it asks for.
func Allow(kinds []string, server string) Policy {
	return func(_ context.Context, r PermissionRequest) string {
		if slices.Contains(kinds, r.KindName()) || r.isOf(server) {
			return r.Option(AllowOnce)
		}
		return ""
	}
}

// KindName returns the kind of the tool; "other" if it was not said.
func (r PermissionRequest) KindName() string { return cmp.Or(r.Kind, "other") }

// isOf reports whether the tool is one of an MCP server, by the titles that claude and gemini give such tools. A model
// does not choose titles of this kind of tools.
func (r PermissionRequest) isOf(server string) bool {
	if r.Kind != "other" || server == "" {
		return false
	}
	tool, ok := strings.CutPrefix(r.Title, "mcp__"+server+"__")
	if !ok {
		tool, ok = strings.CutSuffix(r.Title, " ("+server+" MCP Server)")
	}
	return ok && tool != "" && strings.Trim(tool, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// Option is a possible answer.
type Option struct {
	ID   string
	Name string // for people
	Kind OptionKind
}

// OptionKind says what an option means.
type OptionKind string

const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
)

// Option returns the ID of the first option of a kind, "" if there is none.
func (r PermissionRequest) Option(kind OptionKind) string {
	for _, o := range r.Options {
		if o.Kind == kind {
			return o.ID
		}
	}
	return ""
}

// chosen returns the option with an ID, the zero value if there is none.
func (r PermissionRequest) chosen(id string) Option {
	for _, o := range r.Options {
		if o.ID == id {
			return o
		}
	}
	return Option{}
}

func (o Option) rejects() bool { return o.Kind == RejectOnce || o.Kind == RejectAlways }

const (
	maxOpen    = 16 // requests for permission that wait for a decision
	maxOptions = 50
)

// permissionParams are the parameters of session/request_permission.
type permissionParams struct {
	Session string     `json:"sessionId"`
	Call    toolUpdate `json:"toolCall"`
	Options []struct {
		ID   string     `json:"optionId"`
		Name string     `json:"name"`
		Kind OptionKind `json:"kind"`
	} `json:"options"`
}

// request answers a request of the agent.
func (c *Client) request(m message) {
	if len(m.ID) > maxName {
		return // nothing that is worth to be repeated
	}
	if *m.Method != "session/request_permission" {
		c.conn.answer(outgoing{ID: m.ID, Error: &Error{Code: codeNoMethod,
			Message: "the client does not have the method " + clip(*m.Method)}})
		return
	}
	var p permissionParams
	if !decode(m.Params, &p) {
		c.conn.answer(outgoing{ID: m.ID, Error: &Error{Code: codeParams, Message: "the parameters are missing"}})
		return
	}
	r := PermissionRequest{Session: clip(p.Session), Call: clip(p.Call.ID), Title: clip(p.Call.Title),
		Kind: clip(p.Call.Kind)}
	for _, o := range p.Options[:min(len(p.Options), maxOptions)] {
		if o.ID != "" && len(o.ID) <= maxName {
			r.Options = append(r.Options, Option{o.ID, clip(o.Name), o.Kind})
		}
	}
	c.decide(m.ID, r)
}

// decide has the policy decide on a request, in the background.
func (c *Client) decide(id json.RawMessage, r PermissionRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx := c.ctx
	if s := c.sessions[r.Session]; s != nil {
		if s.cancelled {
			c.conn.answer(permissionAnswer(id, ""))
			return
		}
		if s.ctx != nil {
			ctx = s.ctx
		}
		s.describe(&r)
	}
	key := string(id)
	switch {
	case c.open[key] != nil:
		c.conn.answer(outgoing{ID: id, Error: &Error{Code: codeInvalid, Message: "a request with this ID is open"}})
		return
	case c.permit == nil || len(c.open) >= maxOpen || c.ctx.Err() != nil:
		c.conn.answer(c.refuse(id, r, ""))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c.open[key] = cancel
	c.work.Go(func() {
		defer cancel()
		chosen := r.chosen(c.permit(ctx, r))
		c.mu.Lock()
		answer := permissionAnswer(id, chosen.ID)
		switch {
		case ctx.Err() != nil:
			answer = permissionAnswer(id, "")
		case chosen.ID == "" || chosen.rejects():
			answer = c.refuse(id, r, chosen.ID)
		}
		c.mu.Unlock()
		c.conn.send(c.ctx, answer) // as long as the agent takes to read it
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, key)
	})
}

// refuse reports that a request is refused, and returns the answer: an option, or one that it finds. c.mu is held. If
// there is none, the agent is told that the request is cancelled, which allows nothing, and may end its turn.
func (c *Client) refuse(id json.RawMessage, r PermissionRequest, option string) outgoing {
	s := c.sessions[r.Session]
	c.emit(agentcli.Event{Kind: agentcli.Permission, Session: r.Session, Tool: r.Title, Call: r.Call},
		s != nil && s.busy)
	return permissionAnswer(id, cmp.Or(option, r.Option(RejectOnce), r.Option(RejectAlways)))
}

// permissionAnswer returns the answer with an option, or that the request is cancelled.
func permissionAnswer(id json.RawMessage, option string) outgoing {
	type outcome struct {
		Outcome string `json:"outcome"`
		Option  string `json:"optionId,omitempty"`
	}
	type result struct {
		Outcome outcome `json:"outcome"`
	}
	answer := result{outcome{"cancelled", ""}}
	if option != "" {
		answer = result{outcome{"selected", option}}
	}
	return outgoing{ID: id, Result: answer}
}

// cancelRequest handles the notification that the agent no longer waits for the answer to a request.
func (c *Client) cancelRequest(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	decode(params, &p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.open[string(p.ID)]; cancel != nil {
		cancel()
	}
}
