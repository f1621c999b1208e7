package fakemodel

import (
	"fmt"
	"net/http"
	"strconv"
)

// Texts of errors of OpenAI that are used more than once.
const (
	openAIContextCode = "context_length_exceeded"
	openAIContext     = "Your input exceeds the context window of this model. Please adjust your input and try again."
	openAIQuota       = "insufficient_quota"
	openAIOverload    = "server_is_overloaded"
)

// openAIFailure returns the failure for a step, for both APIs of OpenAI; nil if it is none.
func openAIFailure(t *turn, name string) *failure {
	refuse := func(status int, message, kind string, code any) *failure {
		return &failure{status: status, body: object{
			"error": object{"message": message, "type": kind, "param": nil, "code": code},
		}}
	}
	switch name {
	case stepRateLimit:
		f := refuse(http.StatusTooManyRequests, fmt.Sprintf("Rate limit reached for %s in organization org-fake on "+
			"tokens per min (TPM): Limit 30000, Used 30000, Requested 1300. Please try again in %ss.",
			t.model, t.step.seconds()), "tokens", "rate_limit_exceeded")
		f.headers = header{"retry-after": t.step.seconds()}
		return f
	case stepQuota:
		seconds := int(t.step.number)
		return &failure{
			status: http.StatusTooManyRequests,
			body: object{"error": object{
				"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
				"resets_at": t.unixIn(seconds), "resets_in_seconds": seconds,
			}},
			headers: header{
				"x-codex-primary-used-percent":     "100",
				"x-codex-primary-window-minutes":   "300",
				"x-codex-primary-reset-at":         strconv.FormatInt(t.unixIn(seconds), 10),
				"x-codex-secondary-used-percent":   "40",
				"x-codex-secondary-window-minutes": "10080",
				"x-codex-secondary-reset-at":       strconv.FormatInt(t.unixIn(500000), 10),
			},
		}
	case stepSpend:
		return refuse(http.StatusTooManyRequests, "You exceeded your current quota, please check your plan and "+
			"billing details. For more information on this error, read the docs: "+
			"https://platform.openai.com/docs/guides/error-codes/api-errors.", openAIQuota, openAIQuota)
	case stepAuth:
		return refuse(http.StatusUnauthorized, "Incorrect API key provided: dummy. You can find your API key at "+
			"https://platform.openai.com/account/api-keys.", "invalid_request_error", "invalid_api_key")
	case stepInternal:
		return refuse(http.StatusInternalServerError,
			"The server had an error while processing your request. Sorry about that!", "server_error", nil)
	case stepOverloaded:
		return refuse(http.StatusServiceUnavailable,
			"The server is currently overloaded with other requests. Sorry about that!", openAIOverload, openAIOverload)
	case stepContext:
		return refuse(http.StatusBadRequest, openAIContext, "invalid_request_error", openAIContextCode)
	}
	return nil
}
