package agentcli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// rule says what a failure means. All fields that are set have to match.
type rule struct {
	is      outcome.ObstacleKind
	code    string  // as the command line or the server spells it
	status  int     // of HTTP; 5 means 500 and above
	text    string  // how the text of the failure begins, with straight quotes
	atOnce  bool    // the command line has not tried the call again
	account Account // what pays
	before  string  // versions of the command line before this one
	denied  bool    // a call of a tool was denied

	says string // for people, in place of the text of the failure
}

// rules returns the rules of a command line in their order: the first that matches any failure decides.
// Those of servers, which many command lines pass on, come last. An agent that speaks ACP passes on what its vendor
// says; if that is not known, it may be an adapter for claude.
func rules(cli, vendor CLI) []rule {
	switch cli {
	case Claude:
		return append(claudeRules(), serverRules()...)
	case Codex:
		return append(codexRules(), serverRules()...)
	case Gemini:
		return append(geminiRules(), serverRules()...)
	case Opencode:
		return append(opencodeRules(), serverRules()...)
	case ACP:
		if vendor == "" || vendor == Plain || vendor == ACP {
			vendor = Claude
		}
		return append(acpRules(), rules(vendor, "")...)
	case Copilot:
		return append(serverCodes(), append(copilotRules(), serverRules()...)...)
	}
	return serverRules()
}

func claudeRules() []rule {
	return []rule{
		{is: outcome.ContextFull, code: "prompt_too_long"},
		{is: outcome.ContextFull, code: "rapid_refill_breaker"},
		{is: outcome.UsageLimit, code: "usage_limit_reached"},
		{is: outcome.UsageLimit, code: windowRejected},
		{is: outcome.UsageLimit, code: "blocking_limit"},
		{is: outcome.Billing, code: "billing_error"},
		{is: outcome.Billing, code: "account_on_hold"},
		{is: outcome.Billing, code: "credits_required"},
		{is: outcome.Authentication, code: "authentication_failed"},
		{is: outcome.Authentication, code: "oauth_org_not_allowed"},
		{is: outcome.Authentication, code: "verification_required"},
		{is: outcome.Authentication, code: "cloud_credential_error"},
		// With a key there is no word on limits: it gives up at once if the server says to wait for long,
		// and otherwise tries ten times.
		{is: outcome.UsageLimit, code: "rate_limit", atOnce: true},
		{is: outcome.RateLimit, code: "rate_limit"},
		{is: outcome.Refused, code: "refusal"},
		{is: outcome.ModelLimitation, code: "max_output_tokens"},
		{is: outcome.Overloaded, code: "overloaded"},
		{is: outcome.Overloaded, code: "server_error"},
		{is: outcome.Configuration, code: "model_not_found"},
		{is: outcome.Configuration, code: "config_file_invalid"},
		{is: outcome.Configuration, code: "cwd_unavailable"},
		{is: outcome.Configuration, code: "bypass_root"},
		{is: outcome.Configuration, code: "cli_version_too_old"},
		{is: outcome.Budget, code: "max_turns"},
		{is: outcome.Budget, code: "error_max_turns"},
		{is: outcome.Budget, code: "budget_exhausted"},
		{is: outcome.Budget, code: "error_max_budget_usd"},
		{is: outcome.PermissionDenied, code: "tool_deferred"},
		{is: outcome.PermissionDenied, code: "tool_deferred_unavailable"},
		{is: outcome.ModelLimitation, code: "malformed_tool_use_exhausted"},
		{is: outcome.ModelLimitation, code: "structured_output_retry_exhausted"},
		{is: outcome.ModelLimitation, code: "error_max_structured_output_retries"},
		{is: outcome.ModelLimitation, code: "image_error"},
		{is: outcome.ModelLimitation, code: "model_error"},
		{is: outcome.Crash, code: "aborted_tools", says: "it was interrupted"},
		{is: outcome.Crash, code: "aborted_streaming", says: "it was interrupted"},
		{is: outcome.SessionLost, text: "No conversation found with session ID"},
		{is: outcome.Network, code: "unknown"},
		{is: outcome.ModelLimitation, code: "invalid_request"},
	}
}

// codexRules are by text where the only code is in the file of the session, which calls a used-up plan
// and a used-up balance the same.
func codexRules() []rule {
	return []rule{
		{is: outcome.Billing, text: "Quota exceeded. Check your plan and billing details."},
		{is: outcome.Billing, text: "Your workspace is out of credits"},
		{is: outcome.Billing, text: "You hit your spend cap"},
		{is: outcome.UsageLimit, text: "You've hit your usage limit"},
		{is: outcome.UsageLimit, code: "usage_limit_exceeded"},
		{is: outcome.ContextFull, code: "context_window_exceeded"},
		{is: outcome.ContextFull, text: "Codex ran out of room in the model's context window"},
		{is: outcome.Authentication, code: "unauthorized"},
		{is: outcome.Authentication, text: "unexpected status 401"},
		{is: outcome.Authentication, text: "unexpected status 403"},
		{is: outcome.RateLimit, text: "exceeded retry limit, last status: 429"},
		{is: outcome.Refused, text: "stream disconnected before completion: Incomplete response returned, reason: " +
			"content_filter"},
		{is: outcome.ModelLimitation, text: "Incomplete response returned, reason: max_output_tokens"},
		{is: outcome.Overloaded, code: "server_overloaded"},
		{is: outcome.Overloaded, text: "Selected model is at capacity"},
		{is: outcome.Overloaded, text: "We're currently experiencing high demand"},
		{is: outcome.Overloaded, text: "exceeded retry limit, last status: 5"},
		{is: outcome.Overloaded, text: "unexpected status 5"},
		{is: outcome.SessionLost, text: "thread/resume: thread/resume failed"},
		{is: outcome.Network, text: "stream disconnected before completion"},
		{is: outcome.Network, text: "error sending request"},
		{is: outcome.Network, text: "Connection failed"},
		{is: outcome.Network, code: "response_stream_disconnected"},
		{is: outcome.Network, code: "response_stream_connection_failed"},
	}
}

func geminiRules() []rule {
	return []rule{
		{is: outcome.UsageLimit, code: "TerminalQuotaError"},
		{is: outcome.UsageLimit, text: "You have exhausted your"},
		{is: outcome.Overloaded, code: "RetryableQuotaError", text: "The model is overloaded"},
		{is: outcome.RateLimit, code: "RetryableQuotaError"},
		{is: outcome.Billing, code: "BILLING_DISABLED"},
		{is: outcome.Authentication, code: "API_KEY_INVALID"},
		{is: outcome.Authentication, code: "FatalAuthenticationError"},
		{is: outcome.Authentication, code: "ValidationRequiredError"},
		{is: outcome.Authentication, code: "exit code 41"},
		{is: outcome.ContextFull, text: "The input token count ("},
		{is: outcome.Loop, text: "Loop detected"},
		{is: outcome.SessionLost, text: "Error resuming session: "},
		{is: outcome.SessionLost, text: "No previous sessions found for this project."}, // over ACP
		{is: outcome.Configuration, code: "ModelNotFoundError"},
		{is: outcome.Configuration, code: "exit code 42"},
		{is: outcome.Configuration, code: "exit code 44"},
		{is: outcome.Configuration, code: "exit code 52"},
		{is: outcome.Budget, code: "exit code 53"},
		{is: outcome.PermissionDenied, code: "exit code 55"},
		{is: outcome.Overloaded, code: "UNAVAILABLE"},
		{is: outcome.Overloaded, code: "INTERNAL"},
		{is: outcome.Network, text: "terminated"},
		{is: outcome.Network, text: "exception TypeError: fetch failed"},
		{is: outcome.Network, code: "SyntaxError"}, // the answer was no JSON
	}
}

func opencodeRules() []rule {
	return []rule{
		{is: outcome.ContextFull, code: "ContextOverflowError"},
		{is: outcome.Refused, code: "ContentFilterError"},
		{is: outcome.Refused, code: "content-filter"},
		{is: outcome.ModelLimitation, code: "length"},
		{is: outcome.ModelLimitation, code: "MessageOutputLengthError"},
		{is: outcome.Authentication, code: "ProviderAuthError"},
		{is: outcome.Configuration, code: "ProviderModelNotFoundError"},
		{is: outcome.Crash, code: "MessageAbortedError"},
		{is: outcome.SessionLost, text: "Session not found"},
		// Over ACP there is only the message of the server.
		{is: outcome.UsageLimit, text: "The usage limit has been reached"},
		{is: outcome.Authentication, text: "Incorrect API key provided"},
		{is: outcome.Network, code: "ECONNRESET"},
		{is: outcome.Network, code: "ECONNREFUSED"},
		{is: outcome.Network, code: "ConnectionRefused"},
		{is: outcome.Network, code: "ETIMEDOUT"},
		{is: outcome.Network, code: "ENOTFOUND"},
		{is: outcome.Network, text: "JSON parsing failed"},
		{is: outcome.Network, text: "Cannot connect to API"},
	}
}

func copilotRules() []rule {
	return []rule{
		{is: outcome.Authentication, code: "authentication"},
		{is: outcome.Billing, code: "quota"},
		{is: outcome.RateLimit, code: "rate_limit"},
		{is: outcome.ContextFull, text: "The provider rejected the prompt as too long"},
		{is: outcome.Refused, code: "content_filter"},
		{is: outcome.ModelLimitation, code: "length"},
		{is: outcome.SessionLost, text: "No session, task, or name matched"},
		{is: outcome.Network, code: "transport"},
		{is: outcome.Crash, code: "abort", says: "it was interrupted"},
	}
}

// acpRules are by the stop reasons and error codes of the Agent Client Protocol, and by the kinds of errors of
// its adapter for claude. The client cannot see whether an agent tries again.
func acpRules() []rule {
	return []rule{
		{is: outcome.Refused, code: "refusal"},
		{is: outcome.ModelLimitation, code: "max_tokens"},
		{is: outcome.Budget, code: "max_turn_requests", says: "it has called the model as often as one prompt may"},
		{is: outcome.PermissionDenied, code: "cancelled", denied: true, says: "it ended when a tool was denied"},
		{is: outcome.PermissionDenied, code: "abort", denied: true, says: "it ended when a tool was denied"}, // copilot
		{is: outcome.Crash, code: "cancelled", says: "it was interrupted"},
		{is: outcome.Crash, code: "protocol_error"},
		{is: outcome.Authentication, code: "auth_required"},
		{is: outcome.SessionLost, code: "resource_not_found"},
		{is: outcome.ContextFull, code: "invalid_request", text: "Prompt is too long"},
		{is: outcome.UsageLimit, code: windowRejected},
		{is: outcome.UsageLimit, code: "rate_limit", text: "You've hit your"},
		{is: outcome.RateLimit, code: "rate_limit"},
		{is: outcome.ModelLimitation, code: "incomplete_tool_call"},
		{is: outcome.Crash, code: "worker_shutdown"},
		{is: outcome.Crash, code: "transport_lost"},
		{is: outcome.Crash, code: "no_result"},
	}
}

// serverCodes are codes in the errors of servers.
func serverCodes() []rule {
	return []rule{
		{is: outcome.UsageLimit, code: "usage_limit_reached"},
		{is: outcome.Billing, code: "insufficient_quota"},
		{is: outcome.Billing, code: "enforced_spend_limit_reached"},
		{is: outcome.Authentication, code: "invalid_api_key"},
		{is: outcome.Authentication, code: "authentication_error"},
		{is: outcome.Authentication, code: "permission_error"},
		{is: outcome.ContextFull, code: "context_length_exceeded"},
		{is: outcome.RateLimit, code: "rate_limit_exceeded"},
		{is: outcome.RateLimit, code: "rate_limit_error"},
		{is: outcome.Overloaded, code: "server_is_overloaded"},
		{is: outcome.Overloaded, code: "overloaded_error"},
		{is: outcome.Overloaded, code: "server_error"},
	}
}

// serverRules are codes in the errors of servers, and then what a status says without a code.
func serverRules() []rule {
	return append(serverCodes(), []rule{
		{is: outcome.Authentication, status: 401},
		{is: outcome.Billing, status: 402},
		{is: outcome.Authentication, status: 403},
		{is: outcome.RateLimit, status: 429},
		{is: outcome.Overloaded, status: 5},
	}...)
}

// windowRejected is the code of a failure that follows from a quota, not from a message.
const windowRejected = "rejected by a limit"

// straight replaces the apostrophes that are used in texts for people.
var straight = strings.NewReplacer("\u2019", "'", "\u2018", "'")

// matches reports whether a failure is what the rule describes.
func (r rule) matches(f Failure, run Report) bool {
	return (r.code == "" || strings.EqualFold(r.code, f.Code)) &&
		(r.status == 0 || r.status == f.Status || r.status == 5 && f.Status >= 500) &&
		(r.text == "" || strings.HasPrefix(straight.Replace(f.Text), r.text)) &&
		(!r.atOnce || run.Retried == 0) &&
		(!r.denied || run.Denied > 0) &&
		(r.account == "" || r.account == run.Account) &&
		(r.before == "" || older(run.Version, r.before))
}

// describe names the rule and the evidence for it.
func (r rule) describe(f Failure) string {
	var parts []string
	if r.code != "" {
		parts = append(parts, strconv.Quote(f.Code))
	}
	if r.status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", f.Status))
	}
	if r.text != "" {
		parts = append(parts, fmt.Sprintf("a message that begins with %q", r.text))
	}
	text := strings.Join(parts, ", ") + " in its " + string(f.Source)
	if r.atOnce {
		text += ", and it did not try again"
	}
	if r.denied {
		text += ", and a tool was denied"
	}
	return text
}

// older reports whether a version comes before another. An unknown one does not.
func older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := 0; i < len(a) && i < len(b); i++ {
		x, err := strconv.Atoi(a[i])
		y, err2 := strconv.Atoi(b[i])
		if err != nil || err2 != nil {
			return false
		}
		if x != y {
			return x < y
		}
	}
	return version != "" && len(a) < len(b)
}
