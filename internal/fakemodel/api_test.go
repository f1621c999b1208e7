package fakemodel

import (
	"encoding/json"
	"strings"
)

// An api is one API as a client knows it.
type api struct {
	name  string
	path  func(stream bool) string
	plain object // a request without tools
	tools object // adds tools: a shell, and one that is called c_note
	// adds the result of a call of c_note
	result object
	schema func(any) object // adds a wanted schema
	whole  func(*outcome, any)
	part   func(*outcome, any)
}

// streamed returns a request with the flag for a stream, where the body has it.
func (a api) streamed(body object, stream bool) object {
	if a.name == "gemini" {
		return body
	}
	return with(body, object{"stream": stream, "model": "m-1"})
}

// main returns a request with tools.
func (a api) main() object { return with(a.plain, a.tools) }

// model returns the model of requests.
func (a api) model() string {
	if a.name == "gemini" {
		return "gem-1"
	}
	return "m-1"
}

// fixed returns a path for requests that are streamed and others.
func fixed(path string) func(bool) string { return func(bool) string { return path } }

// Schemas of tools.
func shellSchema() object {
	return object{"type": "object", "properties": object{"command": object{"type": "string"}},
		"required": []any{"command"}}
}

func noteSchema() object {
	return object{"type": "object", "properties": object{"text": object{"type": "string"}}}
}

// apis returns all APIs.
func apis() []api {
	hi := []any{object{"role": "user", "content": "hi"}}
	return []api{{
		name: "anthropic", path: fixed("/v1/messages?beta=true"), plain: object{"messages": hi, "max_tokens": 100},
		tools: object{"tools": []any{
			object{"name": "Bash", "input_schema": shellSchema()},
			object{"name": "c_note", "input_schema": noteSchema()},
		}},
		result: object{"messages": append(hi[:1:1],
			object{"role": "assistant", "content": []any{object{"type": "tool_use", "name": "c_note"}}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "content": "ok"}}})},
		schema: func(s any) object { return object{"output_config": object{"format": object{"schema": s}}} },
		whole:  anthropicWhole, part: anthropicPart,
	}, {
		name: "responses", path: fixed("/v1/responses"), plain: object{"input": hi},
		tools: object{"tools": []any{
			object{"type": "function", "name": "shell", "parameters": shellSchema()},
			object{"type": "function", "name": "c_note", "parameters": noteSchema()},
		}},
		result: object{"input": append(hi[:1:1], object{"type": "function_call", "name": "c_note"},
			object{"type": "function_call_output", "output": "ok"})},
		schema: func(s any) object { return object{"text": object{"format": object{"schema": s}}} },
		whole:  responsesWhole, part: responsesPart,
	}, {
		name: "chat", path: fixed("/v1/chat/completions"),
		plain: object{"messages": hi, "stream_options": object{"include_usage": true}},
		tools: object{"tools": []any{
			object{"type": "function", "function": object{"name": "bash", "parameters": shellSchema()}},
			object{"type": "function", "function": object{"name": "c_note", "parameters": noteSchema()}},
		}},
		result: object{"messages": append(hi[:1:1],
			object{"role": "assistant", "tool_calls": []any{object{"function": object{"name": "c_note"}}}},
			object{"role": "tool", "content": "ok"})},
		schema: func(s any) object {
			return object{"response_format": object{"type": "json_schema", "json_schema": object{"schema": s}}}
		},
		whole: func(o *outcome, v any) { chatPart(o, v, "message") },
		part:  func(o *outcome, v any) { chatPart(o, v, "delta") },
	}, {
		name: "gemini", path: func(stream bool) string {
			if stream {
				return "/v1beta/models/gem-1:streamGenerateContent?alt=sse"
			}
			return "/v1beta/models/gem-1:generateContent"
		},
		plain: object{"contents": []any{object{"role": "user", "parts": []any{object{"text": "hi"}}}}},
		tools: object{"tools": []any{object{"functionDeclarations": []any{
			object{"name": "run_shell_command", "parametersJsonSchema": shellSchema()},
			object{"name": "c_note", "parameters": noteSchema()},
		}}}},
		result: object{"contents": []any{
			object{"role": "user", "parts": []any{object{"text": "hi"}}},
			object{"role": "model", "parts": []any{object{"functionCall": object{"name": "c_note"}}}},
			object{"role": "user", "parts": []any{object{"functionResponse": object{"name": "c_note"}}}},
		}},
		schema: func(s any) object { return object{"generationConfig": object{"responseJsonSchema": s}} },
		whole:  geminiPart, part: geminiPart,
	}}
}

// number returns a number at a path of keys.
func number(v any, keys ...string) int {
	n, _ := at(v, keys...).(json.Number)
	i, _ := n.Int64()
	return int(i)
}

// first returns the first element of an array at a path of keys.
func first(v any, keys ...string) any {
	if all := asList(at(v, keys...)); len(all) > 0 {
		return all[0]
	}
	return nil
}

func anthropicUsage(o *outcome, u any) {
	cached := number(u, "cache_read_input_tokens")
	o.usage = tokens{
		prompt: number(u, "input_tokens") + cached + number(u, "cache_creation_input_tokens"),
		cached: cached, output: number(u, "output_tokens"),
	}
}

func anthropicWhole(o *outcome, v any) {
	block := first(v, "content")
	o.text, o.tool = asText(at(block, "text")), asText(at(block, "name"))
	if o.tool != "" {
		o.args = encode(at(block, "input"))
	}
	o.stop = asText(at(v, "stop_reason"))
	anthropicUsage(o, at(v, "usage"))
}

func anthropicPart(o *outcome, v any) {
	switch at(v, "type") {
	case "content_block_start":
		o.tool = asText(at(v, "content_block", "name"))
	case "content_block_delta":
		o.text += asText(at(v, "delta", "text"))
		o.args += asText(at(v, "delta", "partial_json"))
	case "message_delta":
		o.stop = asText(at(v, "delta", "stop_reason"))
		anthropicUsage(o, at(v, "usage"))
	case "error":
		o.failed(at(v, "error"))
	case "message_stop":
		o.complete = true
	}
}

func responsesWhole(o *outcome, v any) {
	responsesItem(o, first(v, "output"))
	o.stop = asText(at(v, "status"))
	if reason := asText(at(v, "incomplete_details", "reason")); reason != "" {
		o.stop = reason
	}
	o.usage = tokens{
		prompt: number(v, "usage", "input_tokens"), cached: number(v, "usage", "input_tokens_details", "cached_tokens"),
		output:    number(v, "usage", "output_tokens"),
		reasoning: number(v, "usage", "output_tokens_details", "reasoning_tokens"),
	}
}

func responsesItem(o *outcome, item any) {
	switch at(item, "type") {
	case "message":
		o.text = asText(at(first(item, "content"), "text"))
	case "local_shell_call":
		o.tool, o.args = toolLocalShell, encode(at(item, "action", "command"))
	default:
		o.tool, o.args = asText(at(item, "name")), asText(at(item, "arguments"))
		if space := asText(at(item, "namespace")); space != "" {
			o.tool = space + ": " + o.tool
		}
	}
}

func responsesPart(o *outcome, v any) {
	kind := asText(at(v, "type"))
	if n, found := asObject(v)["sequence_number"]; found {
		o.outOfOrder = o.outOfOrder || n != json.Number(encode(o.sequence))
		o.sequence++
	}
	switch kind {
	case "response.created", "response.in_progress":
		o.outOfOrder = o.outOfOrder || first(v, "response", "output") != nil || at(v, "response", "usage") != nil ||
			at(v, "response", "status") != "in_progress"
	case "response.output_text.delta":
		o.text += asText(at(v, "delta"))
	case "response.output_item.done":
		streamed := o.text
		responsesItem(o, at(v, "item"))
		o.outOfOrder = o.outOfOrder || !strings.HasPrefix(o.text, streamed)
	case "response.failed":
		o.failed(at(v, "response", "error"))
	case "response.completed", "response.incomplete":
		responsesWhole(o, at(v, "response"))
		o.complete = true
	}
}

func chatPart(o *outcome, v any, key string) {
	choice := first(v, "choices")
	o.text += asText(at(choice, key, "content"))
	if call := first(choice, key, "tool_calls"); call != nil {
		o.tool, o.args = asText(at(call, "function", "name")), asText(at(call, "function", "arguments"))
	}
	if stop := asText(at(choice, "finish_reason")); stop != "" {
		o.stop = stop
	}
	if u := at(v, "usage"); u != nil {
		o.usage = tokens{
			prompt: number(u, "prompt_tokens"), cached: number(u, "prompt_tokens_details", "cached_tokens"),
			output:    number(u, "completion_tokens"),
			reasoning: number(u, "completion_tokens_details", "reasoning_tokens"),
		}
	}
}

func geminiPart(o *outcome, v any) {
	candidate := first(v, "candidates")
	part := first(candidate, "content", "parts")
	o.text += asText(at(part, "text"))
	if name := asText(at(part, "functionCall", "name")); name != "" {
		o.tool, o.args = name, encode(at(part, "functionCall", "args"))
	}
	if u := at(v, "usageMetadata"); u != nil {
		thoughts := number(u, "thoughtsTokenCount")
		o.usage = tokens{
			prompt: number(u, "promptTokenCount"), cached: number(u, "cachedContentTokenCount"),
			output: number(u, "candidatesTokenCount") + thoughts, reasoning: thoughts,
		}
		o.complete = true
		o.stop = asText(at(candidate, "finishReason"))
	}
}
