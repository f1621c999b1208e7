package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

// MCPServer is a server of the Model Context Protocol that the agent starts for a session.
type MCPServer struct {
	Name    string   `json:"name"`
	Command string   `json:"command"` // an absolute path
	Args    []string `json:"args"`
	Env     []Env    `json:"env"`
}

// Env is a variable of the environment.
type Env struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type sessionParams struct {
	Session string      `json:"sessionId,omitempty"`
	Dir     string      `json:"cwd"`
	Servers []MCPServer `json:"mcpServers"`
}

func newSessionParams(id, dir string, servers []MCPServer) (sessionParams, error) {
	if !filepath.IsAbs(dir) {
		return sessionParams{}, fmt.Errorf("the directory of a session is an absolute path, not %q", dir)
	}
	all := make([]MCPServer, 0, len(servers)) // the protocol knows no null
	for _, s := range servers {
		s.Args, s.Env = append([]string{}, s.Args...), append([]Env{}, s.Env...)
		all = append(all, s)
	}
	return sessionParams{id, dir, all}, nil
}

// New begins a session in a directory and returns its ID.
func (c *Client) New(ctx context.Context, dir string, servers []MCPServer) (string, error) {
	params, err := newSessionParams("", dir, servers)
	if err != nil {
		return "", err
	}
	var id string // both are guarded by c.mu
	var left bool
	_, err = c.conn.call(ctx, "session/new", params, func(result json.RawMessage, failed *Error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if left {
			return
		}
		if failed != nil {
			c.failed(failed)
			return
		}
		var r sessionResult
		if decode(result, &r) && r.ID != "" && len(r.ID) <= maxID && c.sessions[r.ID] == nil {
			id = r.ID
			c.begin(&session{id: id, model: r.model(), cost: cost{known: true}})
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		left = true
		return "", err
	}
	if id == "" {
		return "", errors.New("session/new: the agent has answered without the ID of a new session")
	}
	return id, nil
}

// Load continues a session. The agent repeats its history, which is neither reported nor counted. The error is
// errors.ErrUnsupported if the agent cannot.
func (c *Client) Load(ctx context.Context, id, dir string, servers []MCPServer) error {
	if !c.agent.Load {
		return c.unsupported("load sessions", "loadSession")
	}
	return c.restore(ctx, "session/load", id, dir, servers)
}

// Resume continues a session without its history. The error is errors.ErrUnsupported if the agent cannot.
func (c *Client) Resume(ctx context.Context, id, dir string, servers []MCPServer) error {
	if !c.agent.Resume {
		return c.unsupported("resume sessions", "sessionCapabilities.resume")
	}
	return c.restore(ctx, "session/resume", id, dir, servers)
}

func (c *Client) unsupported(what, capability string) error {
	name := c.agent.Name
	if name == "" {
		name = "without a name"
	}
	return fmt.Errorf("the agent %s cannot %s: it does not have the capability %s: %w", name, what, capability,
		errors.ErrUnsupported)
}

func (c *Client) restore(ctx context.Context, method, id, dir string, servers []MCPServer) error {
	params, err := newSessionParams(id, dir, servers)
	if err != nil {
		return err
	}
	s := &session{id: id, loading: true}
	c.mu.Lock()
	known := c.sessions[id] != nil
	if !known && id != "" && len(id) <= maxID {
		c.sessions[id] = s
	}
	c.mu.Unlock()
	switch {
	case known:
		return fmt.Errorf("session %q is in use already", id)
	case id == "" || len(id) > maxID:
		return fmt.Errorf("%.40q is not the ID of a session", id)
	}
	_, err = c.conn.call(ctx, method, params, func(result json.RawMessage, failed *Error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.sessions[id] != s {
			return // the caller has left
		}
		if failed != nil {
			c.failed(failed)
			return
		}
		var r sessionResult
		decode(result, &r)
		s.loading, s.model = false, r.model()
		c.begin(s)
	})
	if err != nil {
		c.forget(id)
	}
	return err
}

// forget ends the client's part of a session.
func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[id]; s != nil {
		s.interrupt()
		delete(c.sessions, id)
	}
}

// CloseSession has the agent end a session and free what it holds. An agent that does not support this keeps
// the session until it ends.
func (c *Client) CloseSession(ctx context.Context, id string) error {
	c.mu.Lock()
	known := c.sessions[id] != nil
	c.mu.Unlock()
	if !known {
		return fmt.Errorf("unknown session %.40q", id)
	}
	defer c.forget(id)
	if !c.agent.Close {
		return c.conn.notify(ctx, "session/cancel", sessionID{id})
	}
	_, err := c.conn.call(ctx, "session/close", sessionID{id}, nil)
	return err
}

type sessionID struct {
	ID string `json:"sessionId"`
}
