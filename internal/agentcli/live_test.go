package agentcli

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// What a command line reports while it tries again is of its account if that is certain. Too many requests are not, and
// what is over is not.
func TestRefusal(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	const (
		rejected  = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1790003600,"rateLimitType":"five_hour"}}`
		allowed   = `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1790003600,"rateLimitType":"five_hour"}}`
		past      = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1780003600,"rateLimitType":"five_hour"}}`
		tooMany   = `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":429,"error":"rate_limit"}`
		badLogin  = `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":401,"error":"authentication_failed"}`
		answers   = `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1,"output_tokens":1}}}`
		reconnect = `{"type":"error","message":"Reconnecting... 1/5"}`
		codex     = `{"type":"error","message":"You’ve hit your usage limit. Try again at 3:01 AM."}`
	)
	for _, tt := range []struct {
		name     string
		cli      CLI
		lines    []string
		expected outcome.ObstacleKind
	}{
		{"nothing", Claude, nil, ""},
		{"a window", Claude, []string{rejected}, outcome.UsageLimit},
		{"a window that opens again", Claude, []string{rejected, allowed}, ""},
		{"a window of the past", Claude, []string{past}, ""},
		{"too many requests", Claude, []string{tooMany}, ""},
		{"a login", Claude, []string{badLogin}, outcome.Authentication},
		{"a login that is accepted then", Claude, []string{badLogin, answers}, ""},
		{"codex tries again", Codex, []string{reconnect}, ""},
		{"codex has no more", Codex, []string{codex}, outcome.UsageLimit},
	} {
		end := End{CLI: tt.cli, Output: Read(tt.cli, []byte(strings.Join(tt.lines, "\n")+"\n")), Now: now}
		r, ok := end.Refusal()
		if ok != (tt.expected != "") || ok && (r.Obstacle != tt.expected || r.CLI != tt.cli) {
			t.Errorf("%s: %+v, %v", tt.name, r, ok)
		}
	}
}
