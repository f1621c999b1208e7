package acp

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// scripts are what fake agents do. The result is the exit code.
var scripts = map[string]func(*fake) int{}

// script registers what an agent does, for a test with a process.
func script(name string, do func(*fake) int) bool {
	scripts[name] = do
	return true
}

var _ = script("conversation", func(f *fake) int {
	p := f.prompted()
	f.update(`{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
	f.update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`)
	f.say(" ")
	f.say("I ")
	f.update(`{"sessionUpdate":"usage_update","used":53000,"size":200000,"cost":{"amount":0.25,"currency":"USD"},` +
		`"_meta":{"_claude/model":"model-2","_claude/rateLimit":{"status":"allowed_warning","rateLimitType":` +
		`"five_hour","utilization":0.9,"resetsAt":1795403081}}}`)
	f.say("look.")
	f.update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Read a.txt","kind":"read","status":"pending"}`)
	f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress"}`)
	f.update(`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"diff"}]}`)
	f.update(`{"sessionUpdate":"tool_call","toolCallId":"c2","title":"make","status":"failed"}`)
	f.update(`{"sessionUpdate":"plan","entries":[]}`)
	f.update(`{"sessionUpdate":"notice","title":"x"}`)
	f.line(`{"jsonrpc":"2.0","method":"_vendor/news","params":{}}`)
	f.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{}}}`)
	f.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":""}}`)
	f.update(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"All "}}`)
	f.update(`{"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"type":"text","text":"hm"}}`)
	f.update(`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"is up."}}`)
	f.result(p, `{"stopReason":"end_turn","usage":{"totalTokens":1165,"inputTokens":1000,"outputTokens":50,`+
		`"cachedReadTokens":100,"cachedWriteTokens":15}}`)
	f.say("out of turn")
	p = f.expect("session/prompt")
	f.update(`{"sessionUpdate":"usage_update","used":54000,"size":200000,"cost":{"amount":0.75,"currency":"USD"}}`)
	f.say("Yes.")
	f.result(p, `{"stopReason":"end_turn","usage":{"totalTokens":30,"inputTokens":10,"outputTokens":20}}`)
	return f.rest()
})

// All that an agent says becomes events, and a report that Classify reads.
func TestConversation(t *testing.T) {
	between := make(chan bool)
	a := must(t, "conversation", Options{Event: func(e agentcli.Event) {
		if e.Text == "out of turn" {
			close(between)
		}
	}})
	if got := a.Agent(); got != (Agent{"fake", "1.2.3", true, true, true}) {
		t.Errorf("%+v", got)
	}
	r, err := a.Prompt(t.Context(), "s1", "is all up?")
	expected := Result{EndTurn, agentcli.Usage{Input: 1000, CacheRead: 100, CacheWrite: 15, Output: 50, Dollars: 0.25},
		true}
	if err != nil || r != expected {
		t.Errorf("%+v, %v", r, err)
	}
	<-between
	if r, err = a.Prompt(t.Context(), "s1", "really?"); err != nil || r.Usage.Tokens() != 30 || r.Usage.Dollars != 0.5 {
		t.Errorf("%+v, %v", r, err)
	}
	a.Close()
	if d := cmp.Diff(strings.TrimLeft(`
session s1 1.2.3
turn s1
message s1 " "
message s1 "I "
limit s1 five_hour 0.90 2026-11-23 03:04:41 false
message s1 "look." +
tool s1 c1 Read a.txt
tool s1 c1 Read a.txt done ok
tool s1 c2 make done
unknown s1 notice
unknown _vendor/news
unknown update of an unknown session
message s1 "All "
message s1 "is up." +
tokens s1 model-2 1000 100 15 50 0.25
result s1
message s1 "out of turn"
turn s1
message s1 "Yes."
tokens s1 model-2 10 0 0 20 0.50
result s1
`, "\n"), a.seen()); d != "" {
		t.Error(d)
	}
	report := a.Report()
	if report.Tokens() != 1095 || !report.Known || report.Text != "Yes." || report.Calls != 2 ||
		report.Succeeded != 1 || report.Session != "s1" || report.Model != "model-1" || len(report.Windows) != 1 ||
		len(report.Unknown) != 3 {
		t.Errorf("%+v", report)
	}
	if v := a.verdict(""); v.Kind != outcome.Completed {
		t.Errorf("%+v", v)
	}
	if s := a.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
}

// end is the reply to a prompt, and what becomes of it.
type end struct {
	reply    string
	stop     StopReason
	err      string
	obstacle outcome.ObstacleKind
	reason   string
}

const (
	noStop  = "the agent has answered a prompt without a stop reason"
	limited = "You've hit your 5-hour limit · resets 3:04am (UTC)"
	failed  = "it reports a failure"
)

func stops(reason StopReason, obstacle outcome.ObstacleKind, says string) end {
	return end{`"result":{"stopReason":"` + string(reason) + `"}`, reason, "", obstacle, says}
}

func fails(err, message string, obstacle outcome.ObstacleKind, reason string) end {
	return end{`"error":` + err, "", "session/prompt: " + message, obstacle, reason}
}

// internalError is an error as claude-agent-acp reports it.
func internalError(message, kind string, obstacle outcome.ObstacleKind) end {
	return fails(`{"code":-32603,"message":`+quote("Internal error: "+message)+`,"data":{"errorKind":"`+kind+`"}}`,
		message+" ("+kind+")", obstacle, message)
}

var ends = map[string]end{
	"refusal":           stops(Refusal, outcome.Refused, "the model or its safety filter declined (refusal)"),
	"max_tokens":        stops(MaxTokens, outcome.ModelLimitation, "the model gave no complete answer (max_tokens)"),
	"max_turn_requests": stops(MaxTurnRequests, outcome.Budget, "it has called the model as often as one prompt may"),
	"cancelled":         stops(Cancelled, outcome.Crash, "it was interrupted"),
	"of another kind":   stops("bored", outcome.Crash, failed),
	"request cancelled": {`"error":{"code":-32800,"message":"no"}`, Cancelled, "", outcome.Crash, "it was interrupted"},
	"no stop reason":    {`"result":{"stopReason":5}`, "", "session/prompt: " + noStop, outcome.Crash, noStop},
	"null":              {`"result":null`, "", "session/prompt: " + noStop, outcome.Crash, noStop},
	"no result":         {`"resultat":{}`, "", "session/prompt: " + noStop, outcome.Crash, noStop},

	"usage limit":    internalError(limited, "rate_limit", outcome.UsageLimit),
	"rate limit":     internalError("slow down", "rate_limit", outcome.RateLimit),
	"too long":       internalError("Prompt is too long · too long", "invalid_request", outcome.ContextFull),
	"server":         internalError("API Error: Repeated 529 Overloaded errors", "server_error", outcome.Overloaded),
	"maximum":        internalError("exceeded the maximum", "max_output_tokens", outcome.ModelLimitation),
	"half a call":    internalError("incomplete", "incomplete_tool_call", outcome.ModelLimitation),
	"lost":           internalError("gone", "transport_lost", outcome.Crash),
	"a kind to come": internalError("new", "something_else", outcome.Crash),
	"billing": fails(`{"code":-32603,"message":"Internal error","data":{"errorKind":"billing_error"}}`,
		"Internal error (billing_error)", outcome.Billing, "Internal error"),
	"login": fails(`{"code":-32000,"message":"Authentication required"}`, "Authentication required",
		outcome.Authentication, "Authentication required"),
	"session lost": fails(`{"code":-32002,"message":"Resource not found","data":{"sessionId":"s1"}}`,
		"Resource not found", outcome.SessionLost, "Resource not found"),
	"details": fails(`{"code":-32603,"message":"Internal error","data":{"details":"boom"}}`, "boom", outcome.Crash,
		"boom"),
	// gemini
	"429": fails(`{"code":429,"message":"Rate limit exceeded."}`, "Rate limit exceeded.", outcome.RateLimit,
		"Rate limit exceeded."),
	"key": fails(`{"code":400,"message":"{\"error\":{\"code\":400,\"details\":[{\"reason\":\"API_KEY_INVALID\"}],`+
		`\"message\":\"API key not valid.\",\"status\":\"INVALID_ARGUMENT\"}}"}`, "API key not valid. (API_KEY_INVALID)",
		outcome.Crash, "API key not valid."), // of gemini, see agentcli.End.Vendor
	"opencode": fails(`{"code":-32603,"message":"Internal error: no","data":{"errorName":"ProviderAuthError"}}`,
		"no (ProviderAuthError)", outcome.Crash, "no"),
	"500": fails(`{"code":500,"message":"Unknown error."}`, "Unknown error.", outcome.Overloaded, "Unknown error."),

	"no message":       fails(`{"code":-32603}`, "error -32603", outcome.Crash, failed),
	"no object":        fails(`"boom"`, "error 0", outcome.Crash, failed),
	"unexpected types": fails(`{"code":"x","message":7,"data":[]}`, "error 0", outcome.Crash, failed),
}

var _ = script("ends", func(f *fake) int {
	p := f.prompted()
	var params struct{ Prompt []struct{ Text string } }
	decode(p.Params, &params)
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, p.ID, ends[params.Prompt[0].Text].reply))
	return f.rest()
})

// Stop reasons and errors say how a run has ended.
func TestEnds(t *testing.T) {
	for name, c := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := must(t, "ends", Options{})
			r, err := a.Prompt(t.Context(), "s1", name)
			if got := fmt.Sprint(err); r.StopReason != c.stop || got != c.err && (err != nil || c.err != "") {
				t.Errorf("%q, %v; expected %q, %s", r.StopReason, err, c.stop, c.err)
			}
			if r.Known || a.Report().Known {
				t.Errorf("it knows of tokens: %+v", r)
			}
			v := a.verdict("")
			if v.Obstacle != c.obstacle || v.Reason != c.reason {
				t.Errorf("%s %q (%s), expected %s %q", v.Obstacle, v.Reason, v.Rule, c.obstacle, c.reason)
			}
		})
	}
}

var _ = script("limit", func(f *fake) int {
	p := f.prompted()
	f.update(`{"sessionUpdate":"usage_update","used":1,"size":2,"_meta":{"_claude/rateLimit":{"status":"rejected",` +
		`"rateLimitType":"five_hour","resetsAt":1795403081}}}`)
	f.fail(p, `{"code":-32603,"message":"Internal error: no more","data":{"errorKind":"rate_limit"}}`)
	return f.rest()
})

// A quota that claude-agent-acp reports as used up says when it resets.
func TestLimit(t *testing.T) {
	a := must(t, "limit", Options{})
	_, err := a.Prompt(t.Context(), "s1", "go")
	v := a.verdict("")
	if err == nil || v.Obstacle != outcome.UsageLimit || v.Reset.Unix() != 1795403081 || v.Reason != "no more" {
		t.Errorf("%v, %+v", err, v)
	}
}

// The total says what the other numbers include.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		total, in, out, thought, read, written int64
		expected                               agentcli.Usage
	}{
		{18, 1, 2, 0, 7, 8, agentcli.Usage{Input: 1, CacheRead: 7, CacheWrite: 8, Output: 2}},
		{30, 25, 5, 0, 20, 0, agentcli.Usage{Input: 5, CacheRead: 20, Output: 5}},
		{33, 25, 5, 3, 20, 0, agentcli.Usage{Input: 5, CacheRead: 20, Output: 8}},
		{53, 25, 5, 3, 20, 0, agentcli.Usage{Input: 25, CacheRead: 20, Output: 8}},
		{50, 25, 5, 3, 20, 0, agentcli.Usage{Input: 25, CacheRead: 20, Output: 5}},
		{99, 25, 5, 3, 20, 0, agentcli.Usage{Input: 25, CacheRead: 20, Output: 5}}, // wrong
		{0, -3, math.MaxInt64, 0, math.MaxInt64, 0, agentcli.Usage{CacheRead: math.MaxInt64, Output: math.MaxInt64}},
	} {
		text := fmt.Sprintf(`{"totalTokens":%d,"inputTokens":%d,"outputTokens":%d,"thoughtTokens":%d,`+
			`"cachedReadTokens":%d,"cachedWriteTokens":%d}`, c.total, c.in, c.out, c.thought, c.read, c.written)
		var u usage
		decode([]byte(text), &u)
		if got, ok := u.usage(); got != c.expected || !ok {
			t.Errorf("%s: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{`{}`, `null`, `{"inputTokens":"many"}`, `{"totalTokens":1.5}`, `7`} {
		var u usage
		decode([]byte(text), &u)
		if got, ok := u.usage(); ok {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
