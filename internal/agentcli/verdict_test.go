package agentcli

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// What decides, in this order: why it was stopped, what it has reported, its exit code.
func TestClassify(t *testing.T) {
	success := Read(Claude, []byte(claudeResult))
	limit := Read(Claude, []byte(`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"api_error":"usage_limit_reached","result":"You've hit your limit"}`))
	tooLong := Read(Claude, []byte(`{"type":"result","subtype":"success","is_error":false,"terminal_reason":"prompt_too_long"}`))
	warned := Read(Claude, []byte(`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","utilization":0.9,"rateLimitType":"five_hour","resetsAt":1795403081}}`+"\n"+claudeResult))
	for name, c := range map[string]struct {
		end      End
		kind     outcome.Kind
		obstacle outcome.ObstacleKind
		reason   string
	}{
		"completed":                        {End{CLI: Claude, Output: success}, outcome.Completed, "", ""},
		"a plain command":                  {End{CLI: Plain}, outcome.Completed, "", ""},
		"a plain command that fails":       {End{CLI: Plain, Exit: "exit code 3", Code: 3}, outcome.Retryable, outcome.Crash, "exit code 3"},
		"a plain command that calls one":   {End{CLI: Plain, Exit: "exit code 1", Code: 1, Output: Read(Plain, []byte(claudeLimited))}, outcome.Deferred, outcome.UsageLimit, "You've hit your limit"},
		"a short limit of a subscription":  {End{CLI: Claude, Exit: "exit code 1", Code: 1, Output: Read(Claude, []byte(claudeShort))}, outcome.Retryable, outcome.RateLimit, "API Error: Server is temporarily limiting requests (not your usage limit)"},
		"a limit and the exit code 1":      {End{CLI: Claude, Exit: "exit code 1", Code: 1, Output: limit}, outcome.Deferred, outcome.UsageLimit, "You've hit your limit"},
		"a limit and the exit code 0":      {End{CLI: Claude, Output: limit}, outcome.Deferred, outcome.UsageLimit, "You've hit your limit"},
		"a warning is no limit":            {End{CLI: Claude, Output: warned}, outcome.Completed, "", ""},
		"too long, not marked as an error": {End{CLI: Claude, Output: tooLong}, outcome.Retryable, outcome.ContextFull, "the context of the model is full (prompt_too_long)"},
		"no result":                        {End{CLI: Claude, Output: Read(Claude, []byte(claudeInit))}, outcome.Retryable, outcome.Crash, "it ended with 0 and without a result"},
		"text in place of JSON":            {End{CLI: Claude, Output: Read(Claude, []byte("all is up\n"))}, outcome.Completed, "", ""},
		"an object of a wrapper":           {End{CLI: Claude, Output: Read(Claude, []byte(`{"result":"all is up","usage":{"input_tokens":40}}`))}, outcome.Completed, "", ""},
		"a failure of a wrapper":           {End{CLI: Claude, Output: Read(Claude, []byte(`{"is_error":true,"result":"no"}`))}, outcome.Retryable, outcome.Crash, "no"},
		"only tokens of a wrapper":         {End{CLI: Claude, Output: Read(Claude, []byte(`{"usage":{"input_tokens":40}}`))}, outcome.Completed, "", ""},
		"kinds that are not known":         {End{CLI: Claude, Output: Read(Claude, []byte(`{"type":"new"}`))}, outcome.Completed, "", ""},
		"a connection that breaks":         {End{CLI: Opencode, Exit: "exit code 1", Code: 1, Output: Read(Opencode, []byte(openBroken))}, outcome.Retryable, outcome.Network, "Cannot connect to API: The socket connection was closed unexpectedly."},
		"a signal":                         {End{CLI: Codex, Exit: "killed by SIGKILL"}, outcome.Retryable, outcome.Crash, "killed by SIGKILL"},
		"a result, then a signal":          {End{CLI: Claude, Exit: "killed by SIGKILL", Output: success}, outcome.Retryable, outcome.Crash, "killed by SIGKILL"},
		"reaped after its result":          {End{CLI: Claude, Exit: "killed by SIGTERM", Output: success, Stopped: AfterItsEnd}, outcome.Completed, "", ""},
		"stopped by a person":              {End{CLI: Claude, Exit: "killed by SIGTERM", Stopped: ByOperator}, outcome.Deferred, outcome.OtherObstacle, "stopped"},
		"stopped at its budget":            {End{CLI: Claude, Output: limit, Stopped: OverBudget}, outcome.Escalated, outcome.Budget, "the budget is used up"},
		"stopped for its silence":          {End{CLI: Claude, Stopped: Silent}, outcome.Retryable, outcome.Timeout, "the model was silent for too long"},
		"a failure that no rule knows":     {End{CLI: Claude, Exit: "exit code 1", Code: 1, Output: Read(Claude, []byte(`{"type":"result","subtype":"new","is_error":true,"result":"what now"}`))}, outcome.Retryable, outcome.Crash, "what now"},
		"gemini's exit code is a status":   {End{CLI: Gemini, Exit: "exit code 173", Code: 429 % 256}, outcome.Retryable, outcome.RateLimit, "too many requests (exit code 173)"},
		"gemini is not configured":         {End{CLI: Gemini, Exit: "exit code 41", Code: 41}, outcome.Blocked, outcome.Authentication, "the login or key is not accepted (exit code 41)"},
		"173 of another command":           {End{CLI: Codex, Exit: "exit code 173", Code: 173}, outcome.Retryable, outcome.Crash, "exit code 173"},
		"codex ends with an interrupt":     {End{CLI: Codex, Exit: "exit code 1", Code: 1}, outcome.Retryable, outcome.Crash, "exit code 1"},
		"a window that was used up before": {End{CLI: Codex, Output: Read(Codex, []byte(codexBegin+codexItem+codexEnd)), Session: Report{Windows: []Window{{Name: "primary", Used: 1, Rejected: true}}}}, outcome.Completed, "", ""},
	} {
		v := Classify(c.end)
		if v.Kind != c.kind || v.Obstacle != c.obstacle || v.Reason != c.reason {
			t.Errorf("%s: %s %s %q (%s), expected %s %s %q", name, v.Kind, v.Obstacle, v.Reason, v.Rule, c.kind, c.obstacle, c.reason)
		}
	}
}

// An agent that speaks ACP passes on what its vendor says.
func TestVendorRules(t *testing.T) {
	says := func(f Failure) Report {
		return Report{CLI: ACP, Seen: true, Ended: true, Failed: true, Failures: []Failure{f}}
	}
	inSession := func(cli CLI, code string) Report {
		return Report{CLI: cli, Failed: true, Failures: []Failure{{Code: code}}}
	}
	exhausted := Failure{Code: "error 429", Status: 429, Text: "You have exhausted your daily quota on this model."}
	lied := Report{CLI: ACP, Seen: true, Ended: true}
	refused, gaveUp := lied, says(Failure{Code: "cancelled"})
	refused.Denied, gaveUp.Denied, gaveUp.Succeeded = 1, 1, 1
	for name, c := range map[string]struct {
		end      End
		obstacle outcome.ObstacleKind
	}{
		"quota of gemini":   {End{Vendor: Gemini, Output: says(exhausted)}, outcome.UsageLimit},
		"quota of a script": {End{Vendor: Plain, Output: says(exhausted)}, outcome.RateLimit},
		"quota of opencode": {
			End{Vendor: Opencode, Output: says(Failure{Text: "The usage limit has been reached"})}, outcome.UsageLimit,
		},
		"key of opencode": {
			End{Vendor: Opencode, Output: says(Failure{Text: "Incorrect API key provided: x."})}, outcome.Authentication,
		},
		"money of claude": {End{Output: says(Failure{Code: "billing_error"})}, outcome.Billing},
		"key of copilot": {
			End{Vendor: Copilot, Output: lied, Session: inSession(Copilot, "authentication")}, outcome.Authentication,
		},
		"refused, and gives up": {End{Output: gaveUp}, outcome.PermissionDenied},
		"refused copilot": {
			End{Vendor: Copilot, Output: refused, Session: inSession(Copilot, "abort")}, outcome.PermissionDenied,
		},
		"gives up":           {End{Output: says(Failure{Code: "cancelled"})}, outcome.Crash},
		"no login of anyone": {End{Vendor: Codex, Output: says(Failure{Code: "auth_required"})}, outcome.Authentication},
	} {
		c.end.CLI = ACP
		if v := Classify(c.end); v.Obstacle != c.obstacle {
			t.Errorf("%s: %s (%s), expected %s", name, v.Obstacle, v.Rule, c.obstacle)
		}
	}
	if v := Classify(End{CLI: ACP, Output: says(Failure{Code: "error 1", Text: "no disk"})}); v.Reason != "no disk" {
		t.Errorf("a failure that no rule knows: %+v", v)
	}
}

const claudeLimited = `{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"api_error":"usage_limit_reached","result":"You've hit your limit"}`

const claudeShort = `{"type":"system","subtype":"init","apiKeySource":"none","claude_code_version":"2.1.330"}
{"type":"system","subtype":"api_retry","attempt":10,"max_retries":10,"retry_delay_ms":36429,"error_status":429,"error":"rate_limit"}
{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","isUsingOverage":false}}
{"type":"assistant","error":"rate_limit","api_error_status":429,"message":{"content":[{"type":"text","text":"API Error: Server is temporarily limiting requests (not your usage limit)"}]}}
{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":429,"result":"API Error: Server is temporarily limiting requests (not your usage limit)"}
`

const openBroken = `{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"Cannot connect to API: The socket connection was closed unexpectedly.","isRetryable":true,"metadata":{"url":"http://127.0.0.1/v1/chat/completions"}}}}`

// Only ends without a word and faulty configurations count as failures of the agent.
func TestCrashes(t *testing.T) {
	for _, o := range outcome.ObstacleKinds() {
		c := consequenceOf(o)
		crash := o == outcome.Crash || o == outcome.Timeout || o == outcome.Configuration || o == outcome.OtherObstacle
		switch o {
		case outcome.MissingPrerequisite, outcome.ArchitecturalGap, outcome.ExternalDependency, outcome.ScopeTooLarge:
			continue // are said by agents, not read from an end
		case outcome.VerificationFailed, outcome.SchemaMismatch, outcome.MergeConflict, outcome.GuardDenied,
			outcome.TestsWeakened:
			continue // are found by checks of the work
		}
		if c.crash != crash || c.kind == outcome.Completed || c.kind == "" {
			t.Errorf("%s: %+v", o, c)
		}
	}
}

// copilot reports a denied tool as one that has failed.
func TestCopilotDenied(t *testing.T) {
	const run = `{"type":"user.message","data":{"content":"hm"}}
{"type":"tool.execution_start","data":{"toolCallId":"call_1","toolName":"bash"}}
{"type":"tool.execution_complete","data":{"toolCallId":"call_1","success":false,"error":{"message":"Permission denied because no interactive user response was available.","code":"denied"}}}
{"type":"result","sessionId":"s","exitCode":0}
`
	r := Read(Copilot, []byte(run))
	if v := Classify(End{CLI: Copilot, Output: r}); r.Denied != 1 || v.Obstacle != outcome.PermissionDenied {
		t.Errorf("%d denied, %+v", r.Denied, v)
	}
}
