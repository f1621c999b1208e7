package fakemodel

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// statusOverloaded is Anthropic's status for an overloaded API.
const statusOverloaded = 529

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) read(_ string, body object) prompt {
	turns := asList(body["messages"])
	p := prompt{
		api: "anthropic", model: asText(body["model"]), stream: body["stream"] == true,
		turns: len(turns), conversation: body["messages"],
	}
	for _, tool := range asList(body["tools"]) {
		p.tools.add(asText(at(tool, "name")), at(tool, "input_schema"))
	}
	p.offersTools = len(p.tools.names) > 0
	p.schema = at(body, "output_config", "format", "schema")
	if at(body, "output_config", "format") == nil {
		p.schema = at(body, "output_format", "schema")
	}
	for _, block := range asList(at(last(turns), "content")) {
		p.answered = p.answered || at(block, "type") == "tool_result"
	}
	return p
}

func (a anthropic) fail(t *turn) *failure {
	refuse := func(status int, kind, message string, headers header) *failure {
		f := &failure{status: status, headers: header{"request-id": a.requestID(t)}, body: object{
			"type": "error", "error": object{"type": kind, "message": message}, "request_id": a.requestID(t),
		}}
		maps.Copy(f.headers, headers)
		return f
	}
	switch t.step.name {
	case stepRateLimit:
		return refuse(http.StatusTooManyRequests, "rate_limit_error", "This request would exceed your organization's "+
			"rate limit of 30,000 input tokens per minute. For details, refer to: "+
			"https://docs.claude.com/en/api/rate-limits.", header{
			"retry-after":                                t.step.seconds(),
			"anthropic-ratelimit-input-tokens-limit":     "30000",
			"anthropic-ratelimit-input-tokens-remaining": "0",
		})
	case stepQuota:
		h := a.window("rejected", "1.0", t.unixIn(int(t.step.number)))
		h["retry-after"] = t.step.seconds()
		h["x-should-retry"] = "false"
		h["anthropic-ratelimit-unified-overage-status"] = "rejected"
		h["anthropic-ratelimit-unified-overage-disabled-reason"] = "org_level_disabled"
		return refuse(http.StatusTooManyRequests, "rate_limit_error",
			"This request would exceed your account's rate limit. Please try again later.", h)
	case stepSpend:
		return refuse(http.StatusBadRequest, "invalid_request_error", "Your credit balance is too low to access the "+
			"Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.", nil)
	case stepAuth:
		return refuse(http.StatusUnauthorized, "authentication_error", "invalid x-api-key", nil)
	case stepInternal:
		return refuse(http.StatusInternalServerError, "api_error", "Internal server error", nil)
	case stepOverloaded:
		return refuse(statusOverloaded, "overloaded_error", "Overloaded", nil)
	case stepContext:
		return refuse(http.StatusBadRequest, "invalid_request_error",
			"prompt is too long: 215000 tokens > 200000 maximum", nil)
	}
	return nil
}

// requestID returns the id of the request.
func (anthropic) requestID(t *turn) string { return fmt.Sprintf("req_fake%06d", t.id) }

// window returns the headers that tell a plan's state in its window of five hours.
func (anthropic) window(status, utilization string, reset int64) header {
	at := strconv.FormatInt(reset, 10)
	return header{
		"anthropic-ratelimit-unified-status":               status,
		"anthropic-ratelimit-unified-reset":                at,
		"anthropic-ratelimit-unified-representative-claim": "five_hour",
		"anthropic-ratelimit-unified-5h-status":            status,
		"anthropic-ratelimit-unified-5h-reset":             at,
		"anthropic-ratelimit-unified-5h-utilization":       utilization,
	}
}

// servePlan answers what is left of a plan: nothing if the next request for the model is answered by quota. It takes no
// step.
func (x *exchange) servePlan() {
	_, next := x.server.take(x.row.Tag, x.row.Scenario, x.steps, true)
	used, lasts := 50, time.Hour
	if next.name == stepQuota {
		used, lasts = 100, time.Duration(next.number*float64(time.Second))
	}
	x.answer(http.StatusOK, object{
		"five_hour": object{"utilization": used, "resets_at": time.Now().Add(lasts).UTC().Format(time.RFC3339Nano)},
		"seven_day": object{"utilization": 20, "resets_at": time.Now().AddDate(0, 0, 3).UTC().Format(time.RFC3339Nano)},
	}, nil, Usage{})
}

func (a anthropic) headers(t *turn) header {
	h := a.window("allowed", "0.5", t.unixIn(3600))
	h["request-id"] = a.requestID(t)
	return h
}

// message returns an answer before its first word.
func (anthropic) message(t *turn) object {
	return object{
		"id": fmt.Sprintf("msg_fake_%s_%d", t.tag, t.id), "type": "message", "role": "assistant", "model": t.model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": object{
			"input_tokens":                t.usage.Input,
			"cache_creation_input_tokens": t.usage.Written,
			"cache_read_input_tokens":     t.usage.Cached,
			"output_tokens":               1,
			"service_tier":                "standard",
		},
	}
}

// final returns the usage and the stop reason of a complete answer.
func (a anthropic) final(t *turn, s said) (usage object, stop string) {
	usage = with(asObject(a.message(t)["usage"]), object{"output_tokens": t.usage.Output})
	return usage, t.stop(s, "end_turn", "tool_use", "max_tokens", "refusal")
}

// block returns the answer as a block of content.
func (anthropic) block(t *turn, s said) object {
	if s.isCall() {
		return object{"type": "tool_use", "id": fmt.Sprintf("toolu_fake%04d", t.id), "name": s.tool, "input": s.input}
	}
	return object{"type": "text", "text": s.text}
}

func (a anthropic) whole(t *turn, s said) any {
	usage, stop := a.final(t, s)
	return with(a.message(t), object{"content": []any{a.block(t, s)}, "stop_reason": stop, "usage": usage})
}

func (a anthropic) stream(t *turn, s said, words []string) script {
	typed := func(kind string, data object) event { return eventOf(kind, with(data, object{"type": kind})) }
	delta := func(delta object) event {
		return typed("content_block_delta", object{"index": 0, "delta": delta})
	}
	start := object{"type": "text", "text": ""}
	if s.isCall() {
		start = with(a.block(t, s), object{"input": object{}})
	}
	out := script{}
	out.head = []event{
		typed("message_start", object{"message": a.message(t)}),
		typed("content_block_start", object{"index": 0, "content_block": start}),
		typed("ping", object{}),
	}
	if s.isCall() {
		out.head = append(out.head, delta(object{"type": "input_json_delta", "partial_json": encode(s.input)}))
	}
	for _, word := range words {
		out.words = append(out.words, delta(object{"type": "text_delta", "text": word}))
	}
	usage, stop := a.final(t, s)
	out.rest = []event{
		typed("content_block_stop", object{"index": 0}),
		typed("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage}),
	}
	out.end = []event{typed("message_stop", object{})}
	out.garbled.name = "content_block_delta"
	out.garbled.data = `{"type":"content_block_delta","index":0,"delta":{"type":"text_del`
	out.failed = []event{typed("error", object{
		"error": object{"type": "overloaded_error", "message": "Overloaded"}, "request_id": a.requestID(t),
	})}
	return out
}
