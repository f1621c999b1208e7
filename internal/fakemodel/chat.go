package fakemodel

import "fmt"

// chat is OpenAI's Chat Completions API.
type chat struct{}

func (chat) read(_ string, body object) prompt {
	turns := asList(body["messages"])
	p := prompt{
		api: "chat", model: asText(body["model"]), stream: body["stream"] == true,
		turns: len(turns), answered: at(last(turns), "role") == "tool", conversation: body["messages"],
		wantsUsage: at(body, "stream_options", "include_usage") == true,
	}
	for _, tool := range asList(body["tools"]) {
		p.tools.add(asText(at(tool, "function", "name")), at(tool, "function", "parameters"))
	}
	p.offersTools = len(p.tools.names) > 0
	if at(body, "response_format", "type") == "json_schema" {
		p.schema = at(body, "response_format", "json_schema", "schema")
	}
	return p
}

// fail treats a failing stream as an overloaded API: this API has no event for it.
func (chat) fail(t *turn) *failure {
	if t.step.name == stepErrMid {
		return openAIFailure(t, stepOverloaded)
	}
	return openAIFailure(t, t.step.name)
}

func (chat) headers(*turn) header { return nil }

// completion returns an answer, or with a delta a part of one.
func (chat) completion(t *turn, kind string, choices ...any) object {
	return object{
		"id": fmt.Sprintf("chatcmpl-fake%d", t.id), "object": kind, "created": t.now.Unix(), "model": t.model,
		"choices": append([]any{}, choices...),
	}
}

// usage returns the usage of an answer.
func (chat) usage(t *turn) object {
	return object{
		"prompt_tokens":             t.usage.Prompt(),
		"prompt_tokens_details":     object{"cached_tokens": t.usage.Cached},
		"completion_tokens":         t.usage.Output,
		"completion_tokens_details": object{"reasoning_tokens": t.usage.Reasoning},
		"total_tokens":              t.usage.Prompt() + t.usage.Output,
	}
}

// calls returns the call of a tool as a list.
func (chat) calls(t *turn, s said) []any {
	return []any{object{
		"index": 0, "id": fmt.Sprintf("call_fake%d", t.id), "type": "function",
		"function": object{"name": s.tool, "arguments": encode(s.input)},
	}}
}

// finish returns why the answer ends.
func (chat) finish(t *turn, s said) string {
	return t.stop(s, "stop", "tool_calls", "length", "content_filter")
}

func (c chat) whole(t *turn, s said) any {
	message := object{"role": "assistant", "content": s.text}
	if s.isCall() {
		message = object{"role": "assistant", "content": nil, "tool_calls": c.calls(t, s)}
	}
	choice := object{"index": 0, "message": message, "finish_reason": c.finish(t, s)}
	return with(c.completion(t, "chat.completion", choice), object{"usage": c.usage(t)})
}

func (c chat) stream(t *turn, s said, words []string) script {
	const kind = "chat.completion.chunk"
	delta := func(delta object, finish any) event {
		return eventOf("", c.completion(t, kind, object{"index": 0, "delta": delta, "finish_reason": finish}))
	}
	var out script
	out.head = append(out.head, delta(object{"role": "assistant", "content": ""}, nil))
	if s.isCall() {
		out.head = append(out.head, delta(object{"tool_calls": c.calls(t, s)}, nil))
	}
	for _, word := range words {
		out.words = append(out.words, delta(object{"content": word}, nil))
	}
	out.rest = append(out.rest, delta(object{}, c.finish(t, s)))
	if t.wantsUsage {
		out.end = append(out.end, eventOf("", with(c.completion(t, kind), object{"usage": c.usage(t)})))
	}
	out.end = append(out.end, event{data: "[DONE]"})
	out.garbled.data = `{"id":"x","choices":[{"delta":{"con`
	return out
}
