package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/host"
)

func TestReadAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		format, out, text, err string
	}{
		"claude":               {"claude", `{"type":"result","subtype":"success","is_error":false,"result":"Ada","usage":{"input_tokens":1},"modelUsage":{"a":{"inputTokens":10,"cacheReadInputTokens":5,"outputTokens":3},"b":{"inputTokens":1,"outputTokens":1}}}`, "Ada", ""},
		"claude over quota":    {"claude", `{"type":"result","subtype":"success","is_error":true,"api_error":"usage_limit_reached","result":"You've hit your limit"}`, "", "it failed: usage limit: You've hit your limit"},
		"claude out of turns":  {"claude", `{"type":"result","subtype":"error_max_turns","is_error":false,"modelUsage":{"a":{"inputTokens":10}}}`, "", "it failed: budget: budget (error_max_turns)"},
		"claude out of space":  {"claude", `{"type":"result","subtype":"success","is_error":false,"result":"","terminal_reason":"prompt_too_long"}`, "", "it failed: context full: the context of the model is full (prompt_too_long)"},
		"claude lies":          {"claude", `{"type":"result","subtype":"success","result":"Ada","modelUsage":"many"}`, "Ada", ""},
		"claude in words":      {"claude", "Invalid API key", "", `its output is not that of claude; it starts with "Invalid API key"`},
		"claude's stream":      {"claude", "{\"type\":\"system\",\"subtype\":\"init\"}\n{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"Ada\"}", "Ada", ""},
		"claude, cut off":      {"claude", "{\"type\":\"system\",\"subtype\":\"init\"}\n{\"type\":\"result\"", "", "it ended with 0 and without a result"},
		"not claude":           {"claude", `{"type":"message"}`, "", "its output is not that of claude"},
		"codex":                {"codex", "Reading prompt\n{\"type\":\"thread.started\"}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Let me see\"}}\n{\"type\":\"error\",\"message\":\"reconnecting\"}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Ada\"}}\n{\"type\":\"item.completed\",\"item\":{\"type\":\"reasoning\",\"text\":\"no\"}}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"cached_input_tokens\":4,\"output_tokens\":2}}\n", "Ada", ""},
		"codex fails":          {"codex", `{"type":"turn.failed","error":{"message":"You’ve hit your usage limit."}}`, "", "it failed: usage limit: You’ve hit your usage limit."},
		"codex is interrupted": {"codex", "{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Ada\"}}\n{\"type\":\"error\",\"message\":\"stream disconnected before completion\"}", "", "it failed: network: stream disconnected before completion"},
		"codex says nothing":   {"codex", "", "", "its output is not that of codex"},
		"gemini":               {"gemini", `{"session_id":"x","response":"Ada","stats":{"models":{"g":{"api":{},"tokens":{"prompt":10,"candidates":2,"thoughts":1,"total":13}}}}}`, "Ada", ""},
		"gemini fails":         {"gemini", `{"error":{"type":"TerminalQuotaError","message":"daily quota","code":429}}`, "", "it failed: usage limit: daily quota"},
		"gemini in words":      {"gemini", "Loaded cached credentials.", "", "its output is not that of gemini"},
		"opencode":             {"opencode", `{"type":"text","sessionID":"s","part":{"text":"Ada"}}` + "\n" + `{"type":"step_finish","sessionID":"s","part":{"reason":"stop"}}`, "Ada", ""},
		"copilot":              {"copilot", `{"type":"assistant.message","data":{"content":"Ada"}}` + "\n" + `{"type":"result","sessionId":"s","exitCode":0}`, "Ada", ""},
		"unknown":              {"cluade", "", "", `unknown command line "cluade", expected one of claude, codex, gemini, opencode, copilot, plain; did you mean "claude"?`},
	} {
		t.Run(name, func(t *testing.T) {
			// Real agents may exit with code 0 after a failure.
			text, err := Runner{}.ReadAnswer(c.format, host.CommandResult{Stdout: []byte(c.out)})
			if text != c.text || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %s", text, err, c.text, c.err)
			}
			if reported := errors.Is(err, host.ErrReported); reported != strings.HasPrefix(c.err, "it failed: ") {
				t.Errorf("reported: %v, %v", reported, err)
			}
		})
	}
}

// An exit code alone says nothing of an answer, and what was reported says more than it.
func TestReadAnswerOfFailure(t *testing.T) {
	failed := host.CommandResult{ExitCode: 1, Failure: "exit code 1"}
	if _, err := (Runner{}).ReadAnswer("claude", failed); err == nil || errors.Is(err, host.ErrReported) {
		t.Error(err)
	}
	failed.Stderr = []byte("Error when talking to Gemini API Full report available at: /x.json TerminalQuotaError: no more today\n")
	if _, err := (Runner{}).ReadAnswer("gemini", failed); !errors.Is(err, host.ErrReported) || !strings.HasSuffix(err.Error(), "usage limit: no more today") {
		t.Error(err)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add("claude", `{"type":"result","subtype":"success","result":"Ada","modelUsage":{"a":{}}}`)
	f.Add("codex", `{"type":"turn.completed","usage":{"input_tokens":1e308}}`)
	f.Add("gemini", `{"response":"","error":{},"stats":{"models":{"":null}}}`)
	f.Fuzz(func(t *testing.T, format, out string) {
		text, err := Runner{}.ReadAnswer(format, host.CommandResult{Stdout: []byte(out)})
		if err != nil && (text != "" || len(err.Error()) > 1<<10) {
			t.Fatalf("%q, %v", text, err)
		}
	})
}
