package fakeagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"
)

// copilot plays copilot. Its stream has no tokens: they are only in the file of its session.
type copilot struct {
	*player
	turns int
	last  string // ID of the last event in the session
}

func (c *copilot) open() (int, bool) {
	sessions := filepath.Join(c.home("", ".copilot"), "session-state")
	if c.latest && c.resume == "" {
		if file := newestMatch(filepath.Join(sessions, "*", "events.jsonl")); file != "" {
			c.resume = filepath.Base(filepath.Dir(file))
		}
	}
	begins := c.resume == ""
	if !begins && (!isID(c.resume) || firstMatch(filepath.Join(sessions, c.resume, "events.jsonl")) == "") {
		c.say("Error: No session, task, or name matched '" + c.resume + "'")
		return 1, false
	}
	c.id = cmp.Or(c.resume, uuid())
	code, ok := c.append(filepath.Join(sessions, c.id, "events.jsonl"))
	if ok {
		c.model = cmp.Or(c.model, "gpt-5")
		kind := "session.resume"
		if begins {
			kind = "session.start"
		}
		c.record(c.event(kind, object{"sessionId": c.id, "version": 1, "producer": "copilot-agent",
			"copilotVersion": c.version, "selectedModel": c.model, "startTime": c.stamp(),
			"context": object{"cwd": c.cwd}}))
	}
	return code, ok
}

func (c *copilot) event(kind string, data object) object {
	var parent any
	if c.last != "" {
		parent = c.last
	}
	return object{"type": kind, "data": data, "id": uuid(), "timestamp": c.stamp(), "parentId": parent}
}

// record adds an event to the session.
func (c *copilot) record(e object) {
	c.keep(e)
	c.last, _ = e["id"].(string)
}

// both reports an event in the stream and in the session.
func (c *copilot) both(kind string, data object) {
	e := c.event(kind, data)
	c.record(e)
	c.emit(e)
}

func (c *copilot) begin() {
	c.emit(c.event("session.mcp_servers_loaded", object{"servers": []any{}}))
	c.both("user.message", object{"content": c.prompt})
	c.both("assistant.turn_start", object{"turnId": fmt.Sprint(c.turns)})
}

// message reports a message of the model. finish is why it ended.
func (c *copilot) message(text, finish string, requests []any) {
	c.calls++
	call := "chatcmpl-fake" + short()
	c.record(c.event("session.usage_record", object{"usage": object{"model": c.model, "inputTokens": allInput,
		"outputTokens": outputCount, "cacheReadTokens": cacheRead, "cacheWriteTokens": 0, "reasoningTokens": reasoning,
		"cost": 0.0, "apiCallId": call, "numToolCalls": len(requests), "finishReason": finish,
		"contentFilterTriggered": finish == "content_filter"}}))
	c.both("assistant.message", object{"messageId": uuid(), "model": c.model, "content": text, "toolRequests": requests,
		"turnId": fmt.Sprint(c.turns), "apiCallId": call})
}

func (c *copilot) turnEnds() { c.both("assistant.turn_end", object{"turnId": fmt.Sprint(c.turns)}) }

func (c *copilot) tool(t toolCall) {
	arguments := object{"command": t.command, "description": "fake"}
	c.message("", "tool_calls", []any{object{"toolCallId": t.id, "name": "bash", "arguments": arguments}})
	turn := fmt.Sprint(c.turns)
	c.both(
		"tool.execution_start",
		object{"toolCallId": t.id, "toolName": "bash", "arguments": arguments, "turnId": turn},
	)
	c.both("tool.execution_complete", object{"toolCallId": t.id, "model": c.model, "turnId": turn, "success": true,
		"result": object{"content": t.output}})
	c.turnEnds()
	c.turns++
	c.both("assistant.turn_start", object{"turnId": fmt.Sprint(c.turns)})
}

func (c *copilot) answer(text string) {
	c.message(text, "stop", []any{})
	c.emit(c.event("model.call_final_result", object{"model": c.model, "result": "success"}))
	c.turnEnds()
}

// copilotFault is a failure as copilot reports it.
type copilotFault struct {
	status           int
	body             object
	kind, text, code string // of the error that ends the session; the code is of the last call
}

func (c *copilot) fault(f fault) copilotFault {
	e := func(kind, code, message string) object {
		return object{"message": message, "type": kind, "param": nil, "code": code}
	}
	failed := func(status int, message string) string {
		return fmt.Sprintf("Failed to get response from the AI model; retried 5 times (total retry wait time: 59.91 "+
			"seconds) Last error: %d %s", status, message)
	}
	switch f.scenario {
	case Quota:
		const text = "The usage limit has been reached"
		return copilotFault{429, object{"type": "usage_limit_reached", "message": text, "plan_type": "plus",
			"resets_at": f.reset.Unix(), "resets_in_seconds": max(0, int(time.Until(f.reset).Seconds()))},
			"rate_limit", failed(429, text), "http_429"}
	case Rate:
		return copilotFault{
			429,
			e("tokens", "rate_limit_exceeded", "Rate limit reached for gpt-5. Please try again in "+
				"2s."),
			"rate_limit",
			"",
			"http_429",
		}
	case Auth:
		return copilotFault{401, e("invalid_request_error", "invalid_api_key", "Incorrect API key provided: ******."),
			"authentication", "Authentication failed with provider (HTTP 401).", "http_4xx"}
	case Money:
		const text = "You exceeded your current quota, please check your plan and billing details."
		return copilotFault{429, e("insufficient_quota", "insufficient_quota", text), "rate_limit", failed(429, text),
			"http_429"}
	case Context:
		return copilotFault{
			400,
			e("invalid_request_error", "context_length_exceeded", "Your input exceeds the context "+
				"window of this model."),
			"query",
			"The provider rejected the prompt as too long, but automatic recovery " +
				"could not reduce it. Reduce context before retrying.",
			"http_400",
		}
	}
	const text = "The server is currently overloaded with other requests. Sorry about that!"
	return copilotFault{503, e("server_is_overloaded", "server_is_overloaded", text), "query", failed(503, text),
		"http_5xx"}
}

func (c *copilot) retry(f fault, attempt int) {
	says := c.fault(f)
	body, _ := json.Marshal(says.body)
	data := object{"model": c.model, "statusCode": says.status, "retryAttempt": attempt - 1, "failureKind": "api",
		"source": "top_level", "errorMessage": string(body), "errorType": says.body["type"]}
	if code := says.body["code"]; code != nil {
		data["errorCode"] = code
	}
	c.emit(c.event("model.call_failure", data))
}

func (c *copilot) fail(f fault) int {
	if f.scenario == Refused { // which copilot reports as a success
		c.message("I cannot help with that.", "content_filter", []any{})
		c.emit(c.event("model.call_final_result", object{"model": c.model, "result": "success"}))
		c.turnEnds()
		return c.succeed("I cannot help with that.")
	}
	says := c.fault(f)
	c.emit(c.event("model.call_final_result", object{"model": c.model, "result": says.code}))
	c.turnEnds()
	failure := object{"errorType": says.kind, "message": says.text}
	if f.scenario != Context {
		failure["statusCode"] = says.status
	}
	c.both("session.error", failure)
	if c.format == asText {
		c.say("Error: " + says.text)
	}
	return c.finish(1)
}

// finish reports the end with an exit code, and returns that.
func (c *copilot) finish(code int) int {
	c.emit(c.event("assistant.idle", object{}))
	c.emit(object{"type": "result", "timestamp": c.stamp(), "sessionId": c.id, "exitCode": code,
		"usage": object{"premiumRequests": 0, "totalApiDurationMs": 50, "codeChanges": object{"linesAdded": 0,
			"linesRemoved": 0, "filesModified": []any{}}}})
	c.record(c.event("session.shutdown", object{}))
	return code
}

func (c *copilot) succeed(text string) int {
	if c.format == asText {
		c.print(text)
	}
	return c.finish(0)
}

// lie ends with a success after answers of the maximum length, three times continued. Only the file of the session
// says so.
func (c *copilot) lie(text string) int {
	for range 4 {
		c.message(text, "length", []any{})
	}
	c.turnEnds()
	return c.succeed(text)
}
