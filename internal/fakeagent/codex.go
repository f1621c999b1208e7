package fakeagent

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"
)

// codex plays codex exec.
type codex struct {
	*player
	turn    string
	items   int
	ordinal int
}

func (c *codex) open() (int, bool) {
	sessions := filepath.Join(c.home("CODEX_HOME", ".codex"), "sessions")
	const prefix = "rollout-2006-01-02T15-04-05-"
	file := ""
	if c.latest && c.resume == "" {
		if file = newestMatch(filepath.Join(sessions, "*", "*", "*", "rollout-*.jsonl")); file != "" {
			c.resume = nameOf(file, "", ".jsonl")[len(prefix):]
		}
	}
	if c.resume != "" {
		if isID(c.resume) {
			file = firstMatch(filepath.Join(sessions, "*", "*", "*", "rollout-*-"+c.resume+".jsonl"))
		}
		if c.id = c.resume; file == "" {
			c.say("Error: thread/resume: thread/resume failed: no rollout found for thread id " + c.resume +
				" (code -32600)")
			return 1, false
		}
		return c.append(file)
	}
	c.id = uuid()
	now := c.now().UTC()
	return c.append(filepath.Join(sessions, now.Format("2006/01/02"), now.Format(prefix)+c.id+".jsonl"))
}

func (c *codex) begin() {
	c.model, c.turn = cmp.Or(c.model, "gpt-5"), uuid()
	c.line("session_meta", object{"session_id": c.id, "id": c.id, "timestamp": c.stamp(), "cwd": c.cwd,
		"originator": "codex_exec", "cli_version": c.version, "source": "exec", "model_provider": "openai"})
	c.event(object{"type": "task_started", "turn_id": c.turn, "model_context_window": 258400})
	c.event(object{"type": "user_message", "message": c.prompt})
	c.line("turn_context", object{"turn_id": c.turn, "cwd": c.cwd, "model": c.model, "approval_policy": "never"})
	c.emit(object{"type": "thread.started", "thread_id": c.id})
	c.emit(object{"type": "turn.started"})
}

// line writes a line into the rollout.
func (c *codex) line(kind string, payload object) {
	c.keep(object{"timestamp": c.stamp(), "ordinal": c.ordinal, "type": kind, "payload": payload})
	c.ordinal++
}

func (c *codex) event(payload object) { c.line("event_msg", payload) }

// counts returns the usage of n messages.
func (c *codex) counts(n int) object {
	return object{"input_tokens": n * allInput, "cached_input_tokens": n * cacheRead, "cache_write_input_tokens": 0,
		"output_tokens": n * outputCount, "reasoning_output_tokens": n * reasoning}
}

// used records the usage of a message, which the stream does not have before the end.
func (c *codex) used() {
	c.calls++
	total := func(n int) object {
		u := c.counts(n)
		u["total_tokens"] = n * (allInput + outputCount)
		return u
	}
	c.line("token_usage_record", object{"thread_id": c.id, "turn_id": c.turn, "response_id": "resp_fake" + short(),
		"usage": total(1), "turn_token_usage": total(c.calls), "thread_token_usage": total(c.earlier + c.calls)})
	c.limits(object{"used_percent": 50.0, "window_minutes": 300, "resets_at": c.now().Add(time.Hour).Unix()},
		object{"total_token_usage": total(c.earlier + c.calls), "last_token_usage": total(1)})
}

// limits records the state of the quota.
func (c *codex) limits(primary, info any) {
	c.event(object{"type": "token_count", "info": info, "rate_limits": object{"limit_id": "codex", "primary": primary,
		"secondary": nil}})
}

// item reports an item of the turn.
func (c *codex) item(stage, kind string, fields object) {
	v := object{"id": fmt.Sprintf("item_%d", c.items), "type": kind}
	for name, value := range fields {
		v[name] = value
	}
	c.emit(object{"type": "item." + stage, "item": v})
	if stage == "completed" {
		c.items++
	}
}

func (c *codex) tool(t toolCall) {
	c.used()
	command := "/bin/bash -lc '" + t.command + "'"
	c.item("started", "command_execution", object{"command": command, "aggregated_output": "", "exit_code": nil,
		"status": "in_progress"})
	c.item("completed", "command_execution", object{"command": command, "aggregated_output": t.output + "\n",
		"exit_code": 0, "status": "completed"})
}

func (c *codex) answer(text string) {
	c.used()
	c.item("completed", "agent_message", object{"text": text})
}

func (c *codex) retry(f fault, attempt int) {
	text := "exceeded retry limit, last status: 429 Too Many Requests"
	if f.scenario == Auth {
		text, _ = c.fault(f)
	}
	c.emit(object{"type": "error", "message": fmt.Sprintf("Reconnecting... %d/5 (%s)", attempt, text)})
}

// fault returns the text of a failure, and the code that the rollout has of it.
func (c *codex) fault(f fault) (text string, info any) {
	switch f.scenario {
	case Quota:
		at := clock(f.reset, time.Local, "3:04 PM")
		if f.reset.Sub(c.now()) > 20*time.Hour {
			day := f.reset.Local()
			at = fmt.Sprintf("%s %d%s, %d %s", day.Format("Jan"), day.Day(), ordinalOf(day.Day()), day.Year(), at)
		}
		return "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit " +
				"https://chatgpt.com/settings/usage to purchase more credits or try again at " + at + ".",
			"usage_limit_exceeded"
	case Auth:
		return "unexpected status 401 Unauthorized: Incorrect API key provided: fake. You can find your API key at " +
				"https://platform.openai.com/account/api-keys.",
			object{"http_connection_failed": object{"http_status_code": 401}}
	case Money:
		return "Quota exceeded. Check your plan and billing details.", "usage_limit_exceeded"
	case Context:
		return "Codex ran out of room in the model's context window. Start a new thread or clear earlier history " +
			"before retrying.", "context_window_exceeded"
	case Refused:
		return "stream disconnected before completion: Incomplete response returned, reason: content_filter", "other"
	}
	return "Selected model is at capacity. Please try a different model.", "server_overloaded"
}

func ordinalOf(day int) string {
	switch {
	case day%10 == 1 && day != 11:
		return "st"
	case day%10 == 2 && day != 12:
		return "nd"
	case day%10 == 3 && day != 13:
		return "rd"
	}
	return "th"
}

func (c *codex) fail(f fault) int {
	text, info := c.fault(f)
	if f.scenario == Refused {
		c.item("completed", "agent_message", object{"text": "I cannot help with that."})
	}
	if f.scenario == Quota {
		c.limits(object{"used_percent": 100.0, "window_minutes": 300, "resets_at": f.reset.Unix()}, nil)
	}
	c.event(object{"type": "task_complete", "turn_id": c.turn, "last_agent_message": nil,
		"error": object{"message": text, "codex_error_info": info}})
	c.emit(object{"type": "error", "message": text})
	c.emit(object{"type": "turn.failed", "error": object{"message": text}})
	if c.format == asText {
		c.say("ERROR: " + text)
	}
	return 1
}

func (c *codex) succeed(text string) int {
	c.event(object{"type": "task_complete", "turn_id": c.turn, "last_agent_message": text})
	c.emit(object{"type": "turn.completed", "usage": c.counts(c.earlier + c.calls)})
	if c.format == asText {
		c.print(text)
	}
	return 0
}

// lie is not a scenario of codex: its success looks like any other.
func (c *codex) lie(text string) int { return c.succeed(text) }
