package fakeagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"
)

// opencode plays opencode run. The real one keeps its sessions in a database, which nothing else reads; the fake
// only remembers which ones there are.
type opencode struct {
	*player
	message string
}

func (o *opencode) open() (int, bool) {
	sessions := filepath.Join(o.home("", ".local/share/opencode"), "fake-sessions")
	if o.latest && o.resume == "" {
		o.resume = nameOf(newestMatch(filepath.Join(sessions, "*")), "", "")
	}
	if o.resume != "" && (!isID(o.resume) || firstMatch(filepath.Join(sessions, o.resume)) == "") {
		o.say("Error: Session not found")
		return 1, false
	}
	o.id = cmp.Or(o.resume, "ses_"+short())
	code, ok := o.append(filepath.Join(sessions, o.id))
	if ok {
		o.session.Close()
		o.session = nil
	}
	return code, ok
}

func (o *opencode) begin() { o.model = cmp.Or(o.model, "fake/fake-model") }

func (o *opencode) event(kind string, fields object) {
	v := object{"type": kind, "timestamp": o.now().UnixMilli(), "sessionID": o.id}
	for name, value := range fields {
		v[name] = value
	}
	o.emit(v)
}

// part reports a part of a message.
func (o *opencode) part(kind, of string, fields object) {
	v := object{"id": "prt_" + short(), "messageID": o.message, "sessionID": o.id, "type": of}
	for name, value := range fields {
		v[name] = value
	}
	o.event(kind, object{"part": v})
}

// step reports a step: a message of the model with its parts.
func (o *opencode) step(reason string, content func()) {
	o.calls++
	o.message = "msg_" + short()
	o.part("step_start", "step-start", nil)
	content()
	o.part("step_finish", "step-finish", object{"reason": reason, "cost": 0.0012391, "tokens": object{
		"total": allInput + outputCount, "input": allInput - cacheRead, "output": outputCount - reasoning,
		"reasoning": reasoning, "cache": object{"write": 0, "read": cacheRead}}})
}

func (o *opencode) tool(t toolCall) {
	o.step("tool-calls", func() {
		o.part("tool_use", "tool", object{"tool": "bash", "callID": t.id, "state": object{"status": "completed",
			"input": object{"command": t.command}, "output": t.output + "\n", "title": t.command,
			"metadata": object{"exit": 0, "truncated": false}}})
	})
}

func (o *opencode) text(text string) func() {
	return func() { o.part("text", "text", object{"text": text}) }
}

func (o *opencode) answer(text string) { o.step("stop", o.text(text)) }

// retry says nothing: opencode repeats calls in silence.
func (o *opencode) retry(fault, int) {}

// failure reports an error, and returns the exit code.
func (o *opencode) failure(name, text string, data object) int {
	data["message"] = text
	o.event("error", object{"error": object{"name": name, "data": data}})
	if o.format == asText {
		o.say("Error: " + text)
	}
	return 1
}

// api reports an answer of the server.
func (o *opencode) api(status int, retryable bool, headers object, e object) int {
	body, _ := json.Marshal(object{"error": e})
	text, _ := e["message"].(string)
	headers["content-type"] = "application/json"
	return o.failure(
		"APIError",
		text,
		object{"statusCode": status, "isRetryable": retryable, "responseHeaders": headers,
			"responseBody": string(body)},
	)
}

func (o *opencode) fail(f fault) int {
	e := func(kind, code, message string) object {
		return object{"message": message, "type": kind, "param": nil, "code": code}
	}
	switch f.scenario {
	case Quota:
		at := f.reset.Unix()
		return o.api(
			429,
			true,
			object{"x-codex-primary-reset-at": fmt.Sprint(at), "x-codex-primary-used-percent": "100"},
			object{"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
				"resets_at": at, "resets_in_seconds": max(0, int(time.Until(f.reset).Seconds()))},
		)
	case Auth:
		return o.api(401, false, object{}, e(
			"invalid_request_error",
			"invalid_api_key",
			"Incorrect API key provided: fake. You can find your API key at "+
				"https://platform.openai.com/account/api-keys.",
		))
	case Money:
		return o.api(429, true, object{}, e("insufficient_quota", "insufficient_quota", "You exceeded your current "+
			"quota, please check your plan and billing details."))
	case Context:
		const text = "Your input exceeds the context window of this model. Please adjust your input and try again."
		body, _ := json.Marshal(object{"error": e("invalid_request_error", "context_length_exceeded", text)})
		return o.failure("ContextOverflowError", text, object{"responseBody": string(body)})
	case Refused:
		o.step("content-filter", o.text("I cannot help with that."))
		return o.failure("ContentFilterError", "The response was blocked by the provider's content filter", object{})
	}
	return o.api(503, true, object{}, e("server_is_overloaded", "server_is_overloaded",
		"The server is currently overloaded with other requests. Sorry about that!"))
}

func (o *opencode) succeed(text string) int {
	if o.format == asText {
		o.print(text)
	}
	return 0
}

// lie ends in the middle of an answer of the maximum length, and exits with 0.
func (o *opencode) lie(text string) int {
	o.step("length", o.text(text))
	return o.succeed(text)
}
