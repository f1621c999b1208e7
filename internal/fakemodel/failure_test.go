package fakemodel

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A wantFailure describes a failure as a client sees it.
type wantFailure struct {
	status  int
	kind    string
	message string   // a part of it
	headers []string // name and value; "+N" is the Unix time in N seconds
}

// failures returns the failures of an API by step. Those of a stream may differ.
func failures(api string) map[string]wantFailure {
	switch api {
	case "anthropic":
		return map[string]wantFailure{
			"ratelimit": {429, "rate_limit_error", "organization's rate limit of 30,000 input tokens", []string{
				"retry-after", "2", "anthropic-ratelimit-input-tokens-remaining", "0"}},
			"ratelimit=0.5": {429, "rate_limit_error", "rate limit", []string{"retry-after", "0.5"}},
			"quota": {429, "rate_limit_error", "your account's rate limit", []string{
				"retry-after", "7200", "x-should-retry", "false", "anthropic-ratelimit-unified-status", "rejected",
				"anthropic-ratelimit-unified-reset", "+7200", "anthropic-ratelimit-unified-5h-reset", "+7200",
				"anthropic-ratelimit-unified-5h-utilization", "1.0"}},
			"quota=60": {429, "rate_limit_error", "", []string{
				"retry-after", "60", "anthropic-ratelimit-unified-reset", "+60"}},
			"spend":      {400, "invalid_request_error", "Your credit balance is too low", nil},
			"auth":       {401, "authentication_error", "invalid x-api-key", nil},
			"e500":       {500, "api_error", "Internal server error", nil},
			"overloaded": {529, "overloaded_error", "Overloaded", nil},
			"context":    {400, "invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum", nil},
		}
	case "gemini":
		return map[string]wantFailure{
			"ratelimit":  {429, "RESOURCE_EXHAUSTED", "\nPlease retry in 2s.", nil},
			"quota":      {429, "RESOURCE_EXHAUSTED", "\nPlease retry in 7200s.", nil},
			"quota=60":   {429, "RESOURCE_EXHAUSTED", "\nPlease retry in 60s.", nil},
			"spend":      {403, "PERMISSION_DENIED", "requires billing to be enabled", nil},
			"auth":       {400, "INVALID_ARGUMENT", "API key not valid", nil},
			"e500":       {500, "INTERNAL", "An internal error has occurred", nil},
			"overloaded": {503, "UNAVAILABLE", "The model is overloaded", nil},
			"errmid":     {503, "UNAVAILABLE", "The model is overloaded", nil},
			"context":    {400, "INVALID_ARGUMENT", "exceeds the maximum number of tokens allowed", nil},
		}
	}
	all := map[string]wantFailure{
		"ratelimit": {429, "tokens", "Rate limit reached for m-1 in organization org-fake on tokens per min (TPM)",
			[]string{"retry-after", "2"}},
		"ratelimit=7": {429, "tokens", "Please try again in 7s.", []string{"retry-after", "7"}},
		"quota": {429, "usage_limit_reached", "The usage limit has been reached", []string{
			"x-codex-primary-used-percent", "100", "x-codex-primary-reset-at", "+7200",
			"x-codex-secondary-reset-at", "+500000"}},
		"quota=60":   {429, "usage_limit_reached", "", []string{"x-codex-primary-reset-at", "+60"}},
		"spend":      {429, "insufficient_quota", "You exceeded your current quota", nil},
		"auth":       {401, "invalid_request_error", "Incorrect API key provided", nil},
		"e500":       {500, "server_error", "The server had an error", nil},
		"overloaded": {503, "server_is_overloaded", "currently overloaded", nil},
		"context":    {400, "invalid_request_error", "exceeds the context window", nil},
	}
	if api == "chat" {
		all["errmid"] = all["overloaded"]
	}
	return all
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, a := range apis() {
		for step, want := range failures(a.name) {
			for mode, stream := range modes() {
				t.Run(fmt.Sprintf("%s/%s/%s", a.name, step, mode), func(t *testing.T) {
					t.Parallel()
					want := want
					event := a.name == "responses" && stream && step == "context"
					if event {
						want.status, want.kind = 200, "context_length_exceeded"
					}
					c := newClient(t)
					before := time.Now().Unix()
					// A request on the side gets the failure, too, and takes no step.
					c.ask(a, stream, step+",normal", "t", a.plain)
					got := c.ask(a, stream, step+",normal", "t", a.main())
					if got.status != want.status || got.kind != want.kind || got.complete || got.readErr != nil ||
						!strings.Contains(got.failure, want.message) {
						t.Errorf("got %+v, want %+v", got, want)
					}
					for i := 0; i < len(want.headers); i += 2 {
						checkHeader(t, got.header, want.headers[i], want.headers[i+1], before)
					}
					if a.name == "anthropic" && got.header.Get("Request-Id") != asText(at(got.body, "request_id")) {
						t.Errorf("the ids of the request differ: %v, %v", got.header, got.body)
					}
					rows := c.server.Ledger("t")
					if len(rows) != 2 || rows[0].Kind != KindSide || rows[1].Kind != KindMain {
						t.Fatalf("the ledger has %+v", rows)
					}
					for _, row := range rows {
						if row.Status != want.status || row.Step != step || !row.Sent || row.Usage != (Usage{}) {
							t.Errorf("the ledger has %+v", row)
						}
					}
					if next := c.ask(a, stream, step+",normal", "t", a.main()); !next.complete {
						t.Errorf("the next step is not normal: %+v", next)
					}
				})
			}
		}
	}
}

// checkHeader checks a header, as wantFailure describes it.
func checkHeader(t *testing.T, h http.Header, name, want string, before int64) {
	t.Helper()
	got := h.Get(name)
	seconds, relative := strings.CutPrefix(want, "+")
	if !relative {
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		return
	}
	reset, err := strconv.ParseInt(got, 10, 64)
	in, _ := strconv.ParseInt(seconds, 10, 64)
	if err != nil || reset < before+in || reset > time.Now().Unix()+in {
		t.Errorf("%s is %q, want the time in %d s", name, got, in)
	}
}

// Gemini's details say which quota it is, and when it resets. A stream that is not of server-sent
// events is an array.
func TestGeminiDetails(t *testing.T) {
	t.Parallel()
	c, a := newClient(t), apis()[3]
	for step, want := range map[string]string{
		"ratelimit": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier 2s",
		"quota=60":  "GenerateRequestsPerDayPerProjectPerModel-FreeTier 60s",
	} {
		got := c.ask(a, false, step, "t", a.main())
		details := asList(at(got.body, "error", "details"))
		if len(details) != 2 {
			t.Fatalf("%s: %v", step, got.body)
		}
		quota, retry := first(details[0], "violations"), at(details[1], "retryDelay")
		if text := fmt.Sprint(at(quota, "quotaId"), " ", retry); text != want {
			t.Errorf("%s: %s, want %s", step, text, want)
		}
	}
	_, text := c.do(http.MethodPost, "/s/auth/t/v1beta/models/g:streamGenerateContent", object{})
	if !strings.HasPrefix(string(text), "[{") {
		t.Errorf("a failed stream is %s, want an array", text)
	}
}

// half is the part of an answer that is sent before it breaks off.
const half = "The answer is "

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	for _, a := range apis() {
		for _, step := range []string{"cut", "badjson", "errmid"} {
			if (a.name == "chat" || a.name == "gemini") && step == "errmid" {
				continue // a failure, which TestFailures tests
			}
			t.Run(a.name+"/"+step, func(t *testing.T) {
				t.Parallel()
				c := newClient(t)
				got := c.ask(a, true, step, "t", a.main())
				row := c.only("t")
				want := Request{Status: 200, Sent: step == "badjson", Usage: AnswerUsage()}
				switch {
				case step == "errmid" && a.name == "responses":
					want.Usage, want.Sent = Usage{}, true
					if got.kind != "server_is_overloaded" || got.complete || got.readErr != nil {
						t.Errorf("got %+v", got)
					}
				case step == "errmid":
					if got.text != half || got.kind != "overloaded_error" || got.complete || got.readErr != nil {
						t.Errorf("got %+v", got)
					}
				case step == "cut":
					if got.text != half || got.readErr == nil || got.complete || got.broken {
						t.Errorf("got %+v", got)
					}
				case !got.broken || !got.complete || got.readErr != nil || !strings.HasPrefix(got.text, half):
					t.Errorf("got %+v", got)
				}
				if row.Status != want.Status || row.Sent != want.Sent || row.Usage != want.Usage {
					t.Errorf("the ledger has %+v, want %+v", row, want)
				}
				// An answer that is not streamed has no middle.
				if got := c.ask(a, false, step, "whole", a.main()); !got.complete || got.text != Answer {
					t.Errorf("not streamed: %+v", got)
				}
			})
		}
	}
}

// A client that gets nothing more disconnects, and the server does not wait for it any longer:
// closing the server of a test waits for its requests.
func TestHang(t *testing.T) {
	t.Parallel()
	for _, a := range apis() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			ctx, disconnect := context.WithCancel(c.ctx)
			c.ctx = ctx
			c.server.Observe(func(Request) { disconnect() })
			response, err := c.open(http.MethodPost, "/s/hang/t"+a.path(true), a.streamed(a.main(), true))
			if err == nil {
				t.Fatalf("got %s", response.Status)
			}
			row := c.only("t")
			if row.Status != 0 || row.Sent || row.Usage != (Usage{}) || row.Kind != KindMain {
				t.Errorf("the ledger has %+v", row)
			}
		})
	}
}

func TestHangMid(t *testing.T) {
	t.Parallel()
	for _, a := range apis() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t)
			noted := make(chan struct{})
			c.server.Observe(func(Request) { close(noted) })
			ctx, disconnect := context.WithCancel(c.ctx)
			c.ctx = ctx
			response, err := c.open(http.MethodPost, "/s/hangmid/t"+a.path(true), a.streamed(a.main(), true))
			if err != nil {
				t.Fatal(err)
			}
			var o outcome
			err = readEvents(response.Body, func(e event) bool {
				if o.event(a, e); o.text == half {
					<-noted
					disconnect()
				}
				return true
			})
			if err == nil || o.text != half || o.complete {
				t.Errorf("got %+v, %v", o, err)
			}
			if row := c.only("t"); row.Status != 200 || row.Sent || row.Usage != AnswerUsage() {
				t.Errorf("the ledger has %+v", row)
			}
			if sums := c.server.Sums("t"); sums.Unsent != 1 || sums.Usage != (Usage{}) || sums.Billed != 0 {
				t.Errorf("the sums are %+v", sums)
			}
		})
	}
}
