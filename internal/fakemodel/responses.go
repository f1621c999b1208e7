package fakemodel

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) read(_ string, body object) prompt {
	items := asList(body["input"])
	p := prompt{
		api: "responses", model: asText(body["model"]), stream: body["stream"] == true,
		offersTools: len(asList(body["tools"])) > 0, schema: at(body, "text", "format", "schema"),
		turns: len(items), conversation: body["input"],
		answered: strings.HasSuffix(asText(at(last(items), "type")), "_output"),
	}
	for _, tool := range asList(body["tools"]) {
		name := asText(at(tool, "name"))
		switch kind := at(tool, "type"); kind {
		case "function", nil:
			p.tools.add(name, at(tool, "parameters"))
		case "namespace": // of the tools of an MCP server
			for _, inner := range asList(at(tool, "tools")) {
				call, parameters := asText(at(inner, "name")), at(inner, "parameters")
				if strings.HasSuffix(name, "__") {
					p.tools.add(name+call, parameters)
				} else {
					p.tools.addTo(name, call, parameters)
				}
			}
		case toolLocalShell:
			p.tools.add(toolLocalShell, nil)
		}
	}
	return p
}

// fail streams a prompt that is too long, and a stream that fails, as the event of a stream that
// has begun.
func (r responses) fail(t *turn) *failure {
	code, message := openAIOverload, "Our servers are currently overloaded. Please try again later."
	switch {
	case t.stream && t.step.name == stepContext:
		code, message = openAIContextCode, openAIContext
	case t.stream && t.step.name == stepErrMid:
	default:
		return openAIFailure(t, t.step.name)
	}
	response := object{"id": r.responseID(t), "status": "in_progress"}
	failed := with(response, object{"status": "failed", "error": object{"code": code, "message": message}})
	return &failure{status: http.StatusOK, events: []event{
		eventOf("response.created", object{"type": "response.created", "response": response}),
		eventOf("response.failed", object{"type": "response.failed", "response": failed}),
	}}
}

func (responses) headers(t *turn) header {
	return header{
		"x-codex-primary-used-percent":   "50",
		"x-codex-primary-window-minutes": "300",
		"x-codex-primary-reset-at":       strconv.FormatInt(t.unixIn(3600), 10),
	}
}

// responseID returns the id of the answer.
func (responses) responseID(t *turn) string { return fmt.Sprintf("resp_fake%06d", t.id) }

// item returns the answer as an item of output.
func (responses) item(t *turn, s said) object {
	id := func(kind string) string { return fmt.Sprintf("%s_fake%d", kind, t.id) }
	switch s.tool {
	case "":
		return object{
			"type": "message", "id": id("msg"), "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": s.text, "annotations": []any{}}},
		}
	case toolLocalShell:
		command := orElse(asText(s.input["command"]), "true")
		return object{
			"type": "local_shell_call", "id": id("ls"), "call_id": id("call"), "status": "completed",
			"action": object{"type": "exec", "command": []any{"sh", "-c", command}, "env": object{}},
		}
	}
	call := object{
		"type": "function_call", "id": id("fc"), "call_id": id("call"), "name": s.tool,
		"arguments": encode(s.input), "status": "completed",
	}
	if space := t.tools.namespaces[s.tool]; space != "" {
		call["namespace"] = space
	}
	return call
}

func (r responses) whole(t *turn, s said) any {
	response := object{
		"id": r.responseID(t), "object": "response", "created_at": t.now.Unix(), "status": "completed",
		"model": t.model, "output": []any{r.item(t, s)}, "usage": object{
			"input_tokens":          t.usage.Prompt(),
			"input_tokens_details":  object{"cached_tokens": t.usage.Cached},
			"output_tokens":         t.usage.Output,
			"output_tokens_details": object{"reasoning_tokens": t.usage.Reasoning},
			"total_tokens":          t.usage.Prompt() + t.usage.Output,
		},
	}
	if reason := t.stop(s, "", "", "max_output_tokens", "content_filter"); reason != "" {
		response["status"] = "incomplete"
		response["incomplete_details"] = object{"reason": reason}
	}
	return response
}

func (r responses) stream(t *turn, s said, words []string) script {
	number := 0
	typed := func(kind string, data object) event {
		number++
		return eventOf(kind, with(data, object{"type": kind, "sequence_number": number - 1}))
	}
	response, item := asObject(r.whole(t, s)), r.item(t, s)
	ofPart := func(data object) object {
		return with(data, object{"item_id": item["id"], "output_index": 0, "content_index": 0})
	}
	begun := object{"response": with(response, object{"status": "in_progress", "output": []any{}, "usage": nil})}
	added := with(item, object{"status": "in_progress"})
	if !s.isCall() {
		added["content"] = []any{}
	}
	var out script
	out.head = append(out.head,
		typed("response.created", begun),
		typed("response.in_progress", begun),
		typed("response.output_item.added", object{"output_index": 0, "item": added}))
	switch s.tool {
	case "":
		part := object{"type": "output_text", "text": "", "annotations": []any{}}
		out.head = append(out.head, typed("response.content_part.added", ofPart(object{"part": part})))
		for _, word := range words {
			out.words = append(out.words, typed("response.output_text.delta", ofPart(object{"delta": word})))
		}
		out.rest = append(out.rest,
			typed("response.output_text.done", ofPart(object{"text": s.text})),
			typed("response.content_part.done", ofPart(object{"part": with(part, object{"text": s.text})})))
	case toolLocalShell:
	default:
		out.rest = append(out.rest, typed("response.function_call_arguments.done",
			object{"item_id": item["id"], "output_index": 0, "arguments": item["arguments"]}))
	}
	out.rest = append(out.rest, typed("response.output_item.done", object{"output_index": 0, "item": item}))
	kind := t.stop(s, "response.completed", "response.completed", "response.incomplete", "response.incomplete")
	out.end = append(out.end, typed(kind, object{"response": response}))
	out.garbled.name = "response.output_text.delta"
	out.garbled.data = `{"type":"response.output_text.delta","delta":"x`
	return out
}
