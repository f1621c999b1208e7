package fakeagent

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// claude plays claude.
type claude struct {
	*player
	denied []object
}

func (c *claude) open() (int, bool) {
	projects := filepath.Join(c.home("CLAUDE_CONFIG_DIR", ".claude"), "projects")
	here := filepath.Join(projects, projectName(c.cwd))
	find := func(id string) string { return firstMatch(filepath.Join(projects, "*", id+".jsonl")) }
	if c.latest && c.resume == "" {
		c.resume = nameOf(newestMatch(filepath.Join(here, "*.jsonl")), "", ".jsonl")
	}
	if c.resume != "" {
		if file := find(c.resume); isID(c.resume) && file != "" {
			c.id = c.resume
			return c.append(file)
		}
		text := "No conversation found with session ID: " + c.resume
		c.say(text)
		c.emit(object{"type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0,
			"stop_reason": nil, "session_id": c.resume, "total_cost_usd": 0, "usage": c.counts(0),
			"modelUsage": object{}, "permission_denials": []any{}, "errors": []string{text}, "result_index": 0})
		return 1, false
	}
	c.id = cmp.Or(c.newID, uuid())
	if !isID(c.id) {
		c.say("Error: Invalid session ID. Must be a valid UUID.")
		return 1, false
	}
	return c.append(filepath.Join(here, c.id+".jsonl"))
}

// projectName returns the name of the directory that claude has for a working directory.
func projectName(dir string) string {
	return strings.Map(func(r rune) rune {
		if isWord(r) {
			return r
		}
		return '-'
	}, dir)
}

func (c *claude) begin() {
	c.model = cmp.Or(c.model, "claude-opus-5-5")
	key := "none"
	if c.env("ANTHROPIC_API_KEY") != "" && c.item.Scenario != Quota || c.item.Scenario == QuotaNoReset {
		key = "ANTHROPIC_API_KEY"
	}
	c.line(object{"type": "user", "message": object{"role": "user", "content": c.prompt}})
	c.emit(object{"type": "system", "subtype": "init", "cwd": c.cwd, "session_id": c.id, "model": c.model,
		"tools": []string{"Bash", "Edit", "Read", "Write"}, "mcp_servers": []any{}, "permissionMode": "default",
		"apiKeySource": key, "claude_code_version": c.version})
}

// line writes a line into the file of the session.
func (c *claude) line(v object) {
	v["isSidechain"], v["sessionId"], v["version"], v["timestamp"] = false, c.id, c.version, c.stamp()
	v["cwd"], v["uuid"] = c.cwd, uuid()
	c.keep(v)
}

// counts returns the usage of n messages.
func (c *claude) counts(n int) object {
	return object{"input_tokens": n * freshInput, "cache_creation_input_tokens": n * cacheWrite,
		"cache_read_input_tokens": n * cacheRead, "output_tokens": n * outputCount}
}

// byModel returns the usage of n messages by model.
func (c *claude) byModel(n int) object {
	if n == 0 {
		return object{}
	}
	return object{c.model: object{"inputTokens": n * freshInput, "cacheCreationInputTokens": n * cacheWrite,
		"cacheReadInputTokens": n * cacheRead, "outputTokens": n * outputCount, "costUSD": c.cost(n)}}
}

func (c *claude) cost(n int) float64 { return float64(n) * 0.0056532 }

// message reports a message of the model. The stream has the usage with which it begins.
func (c *claude) message(content object, stop string) {
	c.calls++
	id := "msg_fake" + short()
	message := func(reason any, output int) object {
		u := c.counts(1)
		u["output_tokens"] = output
		return object{"id": id, "type": "message", "role": "assistant", "model": c.model,
			"content": []any{content}, "stop_reason": reason, "stop_sequence": nil, "usage": u}
	}
	part := func(event object) {
		if c.partial {
			c.emit(object{"type": "stream_event", "event": event, "session_id": c.id, "parent_tool_use_id": nil,
				"api_message_id": id})
		}
	}
	start := message(nil, 1)
	start["content"] = []any{}
	part(object{"type": "message_start", "message": start})
	c.emit(object{"type": "assistant", "message": message(nil, 1), "parent_tool_use_id": nil, "session_id": c.id,
		"timestamp": c.stamp()})
	part(
		object{
			"type":  "message_delta",
			"delta": object{"stop_reason": stop, "stop_sequence": nil},
			"usage": c.counts(1),
		},
	)
	part(object{"type": "message_stop"})
	c.line(object{"type": "assistant", "message": message(stop, outputCount), "requestedModel": c.model})
}

func (c *claude) tool(t toolCall) {
	c.callTool(t, "Bash", false)
}

// callTool reports a call of a tool. A denied one has an error as its result.
func (c *claude) callTool(t toolCall, name string, denied bool) {
	c.message(object{"type": "tool_use", "id": t.id, "name": name, "input": object{"command": t.command}}, "tool_use")
	if denied {
		c.emit(object{"type": "system", "subtype": "permission_denied", "tool_name": name, "tool_use_id": t.id,
			"decision_reason_type": "other", "message": t.output, "session_id": c.id})
		c.denied = append(c.denied, object{"tool_name": name, "tool_use_id": t.id,
			"tool_input": object{"command": t.command}})
	}
	result := object{"role": "user", "content": []any{object{"tool_use_id": t.id, "type": "tool_result",
		"content": t.output, "is_error": denied}}}
	c.emit(object{"type": "user", "message": result, "parent_tool_use_id": nil, "session_id": c.id,
		"timestamp": c.stamp()})
	c.line(object{"type": "user", "message": result})
}

func (c *claude) answer(text string) { c.message(object{"type": "text", "text": text}, "end_turn") }

func (c *claude) retry(f fault, attempt int) {
	status, code := 429, "rate_limit"
	switch f.scenario {
	case Auth:
		status, code = 401, "authentication_failed"
	case Overloaded:
		status, code = 529, "overloaded"
	}
	c.emit(object{"type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 10,
		"retry_delay_ms": 600, "error_status": status, "error": code, "session_id": c.id})
}

// claudeFault is what claude says of a failure.
type claudeFault struct {
	text, code, kind, terminal string
	status                     int
}

func (c *claude) fault(f fault) claudeFault {
	switch f.scenario {
	case Quota:
		return claudeFault{"You've hit your 5-hour limit · resets " + clock(f.reset, time.UTC, "3:04pm") + " (UTC)",
			"rate_limit", "rate_limit_error", "api_error", 429}
	case QuotaNoReset:
		return claudeFault{"API Error: Request rejected (429) · This request would exceed your account's rate limit. " +
			"Please try again later.", "rate_limit", "rate_limit_error", "api_error", 429}
	case Auth:
		return claudeFault{"Invalid API key · Fix external API key", "authentication_failed", "authentication_error",
			"api_error", 401}
	case Money:
		return claudeFault{"Credit balance is too low", "billing_error", "invalid_request_error", "api_error", 400}
	case Context:
		return claudeFault{"Prompt is too long · the request is ~215000 tokens (limit 200000)", "invalid_request",
			"invalid_request_error", "prompt_too_long", 400}
	case Refused:
		return claudeFault{"API Error: Opus 5.5's safeguards flagged this message " +
			"(https://www.anthropic.com/legal/aup).", "invalid_request", "", "api_error", 0}
	}
	return claudeFault{
		"API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary. " +
			"Try again in a moment.",
		"server_error",
		"overloaded_error",
		"api_error",
		529,
	}
}

func (c *claude) fail(f fault) int {
	says := c.fault(f)
	stop := "stop_sequence"
	if f.scenario == Refused {
		stop = "refusal"
		c.message(object{"type": "text", "text": "I cannot help with that."}, stop)
		c.emit(
			object{"type": "system", "subtype": "model_refusal_no_fallback", "original_model": c.model, "content": "",
				"session_id": c.id},
		)
	}
	limit := object{"status": "rejected", "resetsAt": f.reset.Unix(), "rateLimitType": "five_hour",
		"overageStatus": "rejected", "isUsingOverage": false}
	if f.scenario == Quota {
		event := object{"unifiedWindows": object{"five_hour": object{"utilization": 1, "resetsAt": f.reset.Unix(),
			"status": "rejected"}}}
		for k, v := range limit {
			event[k] = v
		}
		c.emit(object{"type": "rate_limit_event", "rate_limit_info": event, "session_id": c.id})
	}
	message := object{"id": uuid(), "model": "<synthetic>", "role": "assistant", "type": "message", "stop_reason": stop,
		"stop_sequence": "", "usage": c.counts(0), "content": []any{object{"type": "text", "text": says.text}}}
	status := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}(says.status)
	event := object{"type": "assistant", "message": message, "parent_tool_use_id": nil, "session_id": c.id,
		"timestamp": c.stamp(), "error": says.code, "is_api_error_message": true, "api_error_status": status}
	line := object{"type": "assistant", "message": message, "error": says.code, "isApiErrorMessage": true,
		"apiErrorStatus": status}
	result := c.result(true, says.text, stop, says.terminal)
	result["api_error_status"] = status
	if says.kind != "" {
		event["api_error_type"], line["apiErrorType"], result["api_error_type"] = says.kind, says.kind, says.kind
	}
	if f.scenario == Quota {
		event["api_error"], result["api_error"], line["apiError"] = "usage_limit_reached", "usage_limit_reached",
			"usage_limit_reached"
		event["api_error_params"], line["apiErrorParams"] = object{"rate_limit_info": limit},
			object{"rate_limit_info": limit}
	}
	c.emit(event)
	c.line(line)
	c.finish(result, says.text)
	return 1
}

// result returns the result of the run.
func (c *claude) result(failed bool, text, stop, terminal string) object {
	denials := c.denied
	if denials == nil {
		denials = []object{}
	}
	return object{"type": "result", "subtype": "success", "is_error": failed, "result": text, "stop_reason": stop,
		"terminal_reason": terminal, "session_id": c.id, "num_turns": max(1, c.calls), "usage": c.counts(c.calls),
		"total_cost_usd": c.cost(c.earlier + c.calls), "modelUsage": c.byModel(c.earlier + c.calls),
		"model_usage_since_last_result": c.byModel(c.calls), "permission_denials": denials,
		"api_error_status": nil, "result_index": 0}
}

// finish writes the result in the format that was asked for.
func (c *claude) finish(result object, text string) {
	switch c.format {
	case asText:
		c.print(text)
	case asObject:
		c.output.line(c.out, result)
	default:
		c.emit(result)
	}
}

func (c *claude) succeed(text string) int {
	c.finish(c.result(false, text, "end_turn", "completed"), text)
	return 0
}

// lie claims a success although every call of a tool was denied.
func (c *claude) lie(text string) int {
	for n := range 2 {
		c.callTool(toolCall{fmt.Sprintf("toolu_fake%04d", n+1), "git commit -m done",
			"This command requires approval"}, "Bash", true)
	}
	text = "Done: the work is finished and committed. (" + text + ")"
	c.answer(text)
	return c.succeed(text)
}

// interrupted ends after SIGINT: claude reports that, and exits with 0.
func (c *claude) interrupted() int {
	result := c.result(true, "", "tool_use", "aborted_tools")
	delete(result, "result")
	result["subtype"], result["errors"] = "error_during_execution", []string{"[ede_diagnostic] result_type=user"}
	if c.format == asText {
		c.print("Execution error")
		return 0
	}
	c.finish(result, "")
	return 0
}

// clock returns a time of day, rounded up to a minute, so that it does not come before the time.
func clock(at time.Time, where *time.Location, layout string) string {
	return roundUp(at, time.Minute).In(where).Format(layout)
}
