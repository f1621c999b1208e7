package acp

import (
	"encoding/json"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// message handles a request or notification of the agent. It does not block.
func (c *Client) message(m message) {
	switch {
	case len(m.ID) > 0:
		c.request(m)
	case *m.Method == "session/update":
		c.update(m.Params)
	case *m.Method == "$/cancel_request":
		c.cancelRequest(m.Params)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.emit(agentcli.Event{Kind: agentcli.Unknown, Name: clip(*m.Method)}, true)
	}
}

// update is the update of a session.
type update struct {
	Kind    string `json:"sessionUpdate"`
	Message string `json:"messageId"`
	// Content is an object of messages, and a list of tools.
	Content json.RawMessage `json:"content"`
	toolUpdate
	Cost struct {
		Amount   *float64 `json:"amount"`
		Currency string   `json:"currency"`
	} `json:"cost"`
	Meta struct {
		// claude-agent-acp
		Model string          `json:"_claude/model"`
		Limit json.RawMessage `json:"_claude/rateLimit"`
	} `json:"_meta"`
}

// toolUpdate is what an agent says of a call of a tool.
type toolUpdate struct {
	ID     string `json:"toolCallId"`
	Title  string `json:"title"`
	Kind   string `json:"kind"`
	Status string `json:"status"`
}

// update handles a notification of the state of a session. Between prompts, what the agent says is passed on, but
// is not part of a run.
func (c *Client) update(params json.RawMessage) {
	var p struct {
		Session string `json:"sessionId"`
		Update  update `json:"update"`
	}
	decode(params, &p)
	u := &p.Update
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sessions[p.Session]
	if s == nil {
		c.emit(agentcli.Event{Kind: agentcli.Unknown, Name: "update of an unknown session"}, true)
		return
	}
	if s.loading && u.Kind != "usage_update" {
		return // its history
	}
	emit := func(e agentcli.Event) {
		e.Session = s.id
		c.emit(e, s.busy || e.Kind == agentcli.Limit || e.Kind == agentcli.Unknown)
	}
	switch u.Kind {
	case "usage_update":
		s.usage(u, emit)
	case "agent_message_chunk":
		var content struct {
			Text string `json:"text"`
		}
		decode(u.Content, &content)
		if content.Text != "" {
			more := s.text.continues(clip(u.Message), content.Text)
			emit(agentcli.Event{Kind: agentcli.Message, Text: content.Text, Delta: more, Model: s.model})
		}
	case "tool_call", "tool_call_update":
		s.text.interrupted()
		s.tool(u, emit)
	case "agent_thought_chunk", "user_message_chunk", "plan":
		s.text.interrupted()
	case "available_commands_update", "current_mode_update", "config_option_update", "session_info_update":
	default:
		emit(agentcli.Event{Kind: agentcli.Unknown, Name: clip(u.Kind)})
	}
}

// tool reports the start and the end of a call of a tool, but not what comes in between.
func (s *session) tool(u *update, emit func(agentcli.Event)) {
	id := clip(u.ID)
	s.note(id, u.toolUpdate)
	done := u.Status == "completed" || u.Status == "failed"
	if done || u.Kind == "tool_call" {
		emit(agentcli.Event{Kind: agentcli.Tool, Tool: s.calls[id].title, Call: id, Done: done,
			OK: u.Status == "completed"})
	}
}

// usage records the cost, and what the agent says of the model and the quotas of the account.
func (s *session) usage(u *update, emit func(agentcli.Event)) {
	if u.Cost.Amount != nil && u.Cost.Currency == "USD" {
		s.cost.set(*u.Cost.Amount)
	}
	if u.Meta.Model != "" {
		s.model = clip(u.Meta.Model)
	}
	if len(u.Meta.Limit) == 0 {
		return
	}
	// It is passed on as the command line writes it.
	line := append([]byte(`{"type":"rate_limit_event","rate_limit_info":`), u.Meta.Limit...)
	if all := agentcli.Read(agentcli.Claude, append(line, '}')).Windows; len(all) > 0 {
		for i := range all {
			all[i].Name = clip(all[i].Name)
		}
		emit(agentcli.Event{Kind: agentcli.Limit, Windows: all})
	}
}

// usage is the usage in the result of a prompt.
type usage struct {
	Total   *json.Number `json:"totalTokens"`
	Input   *json.Number `json:"inputTokens"`
	Output  *json.Number `json:"outputTokens"`
	Thought *json.Number `json:"thoughtTokens"`
	Read    *json.Number `json:"cachedReadTokens"`
	Written *json.Number `json:"cachedWriteTokens"`
}

// usage returns the usage, and whether there is one. The protocol does not say whether input includes what was
// read from a cache and output includes thoughts; the total does.
func (u usage) usage() (agentcli.Usage, bool) {
	total, hasTotal := amount(u.Total)
	in, hasInput := amount(u.Input)
	out, hasOutput := amount(u.Output)
	thought, _ := amount(u.Thought)
	read, _ := amount(u.Read)
	written, _ := amount(u.Written)
	if !hasInput && !hasOutput {
		return agentcli.Usage{Input: total}, hasTotal
	}
	sum := agentcli.Add(in, out)
	cached := agentcli.Add(read, written)
	switch total {
	case agentcli.Add(sum, cached):
	case agentcli.Add(agentcli.Add(sum, cached), thought):
		out = agentcli.Add(out, thought)
	case sum:
		in = max(0, in-cached)
	case agentcli.Add(sum, thought):
		in, out = max(0, in-cached), agentcli.Add(out, thought)
	}
	return agentcli.Usage{Input: in, CacheRead: read, CacheWrite: written, Output: out}, true
}

func amount(n *json.Number) (int64, bool) {
	if n == nil {
		return 0, false
	}
	v, err := n.Int64()
	return max(0, v), err == nil
}
