package fakemodel

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// gemini is the API of Gemini.
type gemini struct{}

func (gemini) read(path string, body object) prompt {
	turns := asList(body["contents"])
	p := prompt{
		api: "gemini", stream: strings.HasSuffix(path, ":streamGenerateContent"),
		turns: len(turns), conversation: body["contents"],
	}
	if i := strings.LastIndex(path, "/models/"); i >= 0 {
		p.model, _, _ = strings.Cut(path[i+len("/models/"):], ":")
	}
	for _, tool := range asList(body["tools"]) {
		for _, f := range asList(at(tool, "functionDeclarations")) {
			schema := at(f, "parametersJsonSchema")
			if schema == nil {
				schema = at(f, "parameters")
			}
			p.tools.add(asText(at(f, "name")), schema)
		}
	}
	p.offersTools = len(p.tools.names) > 0
	if p.schema = at(body, "generationConfig", "responseJsonSchema"); p.schema == nil {
		p.schema = at(body, "generationConfig", "responseSchema")
	}
	p.answered = slices.ContainsFunc(asList(at(last(turns), "parts")), func(part any) bool {
		return at(part, "functionResponse") != nil
	})
	return p
}

// fail treats a failing stream as an overloaded API: this API has no event for it.
func (g gemini) fail(t *turn) *failure {
	switch t.step.name {
	case stepRateLimit:
		return g.exhausted(t, "GenerateRequestsPerMinutePerProjectPerModel-FreeTier")
	case stepQuota:
		return g.exhausted(t, "GenerateRequestsPerDayPerProjectPerModel-FreeTier")
	case stepSpend:
		return g.refuse(t, http.StatusForbidden, "PERMISSION_DENIED",
			"This API method requires billing to be enabled. Please enable billing on project #fake.",
			detail("ErrorInfo", object{"reason": "BILLING_DISABLED", "domain": "googleapis.com"}))
	case stepAuth:
		return g.refuse(t, http.StatusBadRequest, "INVALID_ARGUMENT",
			"API key not valid. Please pass a valid API key.",
			detail("ErrorInfo", object{"reason": "API_KEY_INVALID", "domain": "googleapis.com",
				"metadata": object{"service": "generativelanguage.googleapis.com"}}))
	case stepInternal:
		return g.refuse(t, http.StatusInternalServerError, "INTERNAL", "An internal error has occurred. "+
			"Please retry or report in https://developers.generativeai.google/guide/troubleshooting")
	case stepOverloaded, stepErrMid:
		return g.refuse(t, http.StatusServiceUnavailable, "UNAVAILABLE",
			"The model is overloaded. Please try again later.")
	case stepContext:
		return g.refuse(t, http.StatusBadRequest, "INVALID_ARGUMENT",
			"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")
	}
	return nil
}

// refuse returns an error as Gemini writes it. Without alt=sse a stream is an array.
func (gemini) refuse(t *turn, status int, state, message string, details ...any) *failure {
	e := object{"code": status, "message": message, "status": state}
	if len(details) > 0 {
		e["details"] = details
	}
	f := &failure{status: status, body: object{"error": e}}
	if t.stream && !slices.Contains(t.query["alt"], "sse") {
		f.body = []any{f.body}
	}
	return f
}

// exhausted returns the error for a quota that is used up.
func (g gemini) exhausted(t *turn, quota string) *failure {
	seconds := t.step.seconds()
	violation := object{
		"quotaMetric":     "generativelanguage.googleapis.com/generate_content_free_tier_requests",
		"quotaId":         quota,
		"quotaDimensions": object{"location": "global", "model": t.model},
		"quotaValue":      "250",
	}
	return g.refuse(t, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED",
		"You exceeded your current quota, please check your plan and billing details. For more information on this "+
			"error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\nPlease retry in "+seconds+"s.",
		detail("QuotaFailure", object{"violations": []any{violation}}),
		detail("RetryInfo", object{"retryDelay": seconds + "s"}))
}

// detail returns a detail of an error, with its type.
func detail(kind string, data object) object {
	return with(data, object{"@type": "type.googleapis.com/google.rpc." + kind})
}

func (gemini) headers(*turn) header { return nil }

// response returns an answer, or a part of one.
func (gemini) response(t *turn, parts []any) object {
	return object{
		"candidates":   []any{object{"content": object{"parts": parts, "role": "model"}, "index": 0}},
		"modelVersion": t.model, "responseId": fmt.Sprintf("fake%d", t.id),
	}
}

// final returns an answer that is complete, or the last part of one.
func (g gemini) final(t *turn, s said, parts []any) object {
	response := g.response(t, parts)
	asObject(asList(response["candidates"])[0])["finishReason"] = t.stop(s, "STOP", "STOP", "MAX_TOKENS", "SAFETY")
	response["usageMetadata"] = object{
		"promptTokenCount":        t.usage.Prompt(),
		"cachedContentTokenCount": t.usage.Cached,
		"candidatesTokenCount":    t.usage.Output - t.usage.Reasoning,
		"thoughtsTokenCount":      t.usage.Reasoning,
		"totalTokenCount":         t.usage.Prompt() + t.usage.Output,
	}
	return response
}

// parts returns the answer as parts of content.
func (gemini) parts(s said) []any {
	if s.isCall() {
		return []any{object{
			"functionCall": object{"name": s.tool, "args": s.input}, "thoughtSignature": "ZmFrZQ==",
		}}
	}
	return []any{object{"text": s.text}}
}

func (g gemini) whole(t *turn, s said) any { return g.final(t, s, g.parts(s)) }

func (g gemini) stream(t *turn, s said, words []string) script {
	var out script
	ending := []any{object{"text": ""}}
	if s.isCall() {
		out.head = append(out.head, eventOf("", g.response(t, g.parts(s))))
		ending = []any{}
	}
	for _, word := range words {
		out.words = append(out.words, eventOf("", g.response(t, g.parts(said{text: word}))))
	}
	out.end = append(out.end, eventOf("", g.final(t, s, ending)))
	out.garbled.data = `{"candidates":[{"content":{"parts":[{"te`
	return out
}
