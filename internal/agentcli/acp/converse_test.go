package acp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// converse has an agent in this process work on a prompt. It returns its report and events.
func converse(ctx context.Context, c Conversation, script func(*fake) int) (agentcli.Report, string) {
	stdin, stdout := pipes(script)
	stream, seen := agentcli.Stream{CLI: agentcli.ACP}, ""
	c.Dir, c.Prompt, c.GoOn = "/work", "all of the task", "go on"
	Converse(ctx, stdin, stdout, Options{Event: func(e agentcli.Event) {
		stream.Add(e)
		seen += describe(e) + "\n"
	}}, c)
	return stream.Report(), seen
}

// answers is the end of the work on a prompt.
const answers = `{"stopReason":"end_turn","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}`

// opens answers with what an agent can do, and returns how it is asked for a session.
func opens(f *fake, can string) (method string) {
	f.begin(`{"protocolVersion":1,"agentCapabilities":` + can + `}`)
	r := f.next()
	f.say("of the history")
	f.result(r, `{"sessionId":"s1"}`)
	return r.Method
}

// A session continues if the agent can do that, and its prompt is another one.
func TestConverse(t *testing.T) {
	for _, c := range []struct{ session, can, method, prompt string }{
		{"", `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`, "session/new", "all of the task"},
		{"s1", `{"loadSession":true,"sessionCapabilities":{"resume":{}}}`, "session/resume", "go on"},
		{"s1", `{"loadSession":true}`, "session/load", "go on"},
		{"s1", `{}`, "session/new", "all of the task"},
	} {
		method, prompt := "", ""
		r, seen := converse(t.Context(), Conversation{Session: c.session}, func(f *fake) int {
			method = opens(f, c.can)
			p := f.expect("session/prompt")
			prompt = string(p.Params)
			f.say("done")
			f.result(p, answers)
			return f.rest()
		})
		if method != c.method || !strings.Contains(prompt, fmt.Sprintf("%q", c.prompt)) {
			t.Errorf("%s with %s, expected %s with %s", method, prompt, c.method, c.prompt)
		}
		if !r.Ended || r.Failed || r.Text != "done" || r.Tokens() != 3 || r.Session != "s1" ||
			strings.Contains(seen, "history") {
			t.Errorf("%+v\n%s", r, seen)
		}
	}
}

// An agent that does not find the session begins a new one, with the whole task.
func TestConverseAnew(t *testing.T) {
	prompt := ""
	r, _ := converse(t.Context(), Conversation{Session: "s0"}, func(f *fake) int {
		f.begin(everything)
		f.fail(f.expect("session/resume"), `{"code":-32002,"message":"Resource not found"}`)
		f.result(f.expect("session/new"), `{"sessionId":"s1"}`)
		p := f.expect("session/prompt")
		prompt = string(p.Params)
		f.result(p, answers)
		return f.rest()
	})
	if r.Failed || r.Session != "s1" || !strings.Contains(prompt, "all of the task") {
		t.Errorf("%+v\n%s", r, prompt)
	}
}

// What keeps an agent from its work is reported, as is what ends it in the middle.
func TestConverseFails(t *testing.T) {
	for name, c := range map[string]struct {
		script   func(*fake) int
		session  string
		obstacle outcome.ObstacleKind
		reason   string
	}{
		"no agent": {func(f *fake) int { f.line("usage: thing"); return 2 }, "", outcome.Crash,
			`initialize: the agent has ended (its output begins with "usage: thing")`},
		"silent": {func(f *fake) int { return f.rest() }, "", outcome.Crash,
			"the agent has not answered initialize within 30s; is it an ACP agent?"},
		"no login": {func(f *fake) int {
			f.begin(`{"protocolVersion":1,"authMethods":[{"id":"x"}]}`)
			f.fail(f.expect("session/new"), `{"code":-32000,"message":"Authentication required"}`)
			return f.rest()
		}, "", outcome.Authentication, "Authentication required"},
		"no login at once": {func(f *fake) int {
			f.fail(f.expect("initialize"), `{"code":-32000,"message":"Authentication required"}`)
			return f.rest()
		}, "", outcome.Authentication, "Authentication required"},
		"no session": {func(f *fake) int { f.begin(everything); f.expect("session/new"); return f.rest() }, "",
			outcome.Crash, "session/new: the agent has not opened the session within 2m0s"},
		"ends before it works": {func(f *fake) int { f.begin(everything); f.expect("session/new"); return 0 }, "",
			outcome.Crash, "session/new: the agent has ended"},
		"session lost, and no login": {func(f *fake) int {
			f.begin(everything)
			f.fail(f.expect("session/resume"), `{"code":-32000,"message":"Authentication required"}`)
			return f.rest()
		}, "s0", outcome.Authentication, "Authentication required"},
		"ends in the middle": {func(f *fake) int { f.prompted(); f.say("I"); return 0 }, "", outcome.Crash,
			"session/prompt: the agent has ended"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, seen := converse(t.Context(), Conversation{Session: c.session}, c.script)
			v := agentcli.Classify(agentcli.End{CLI: agentcli.ACP, Output: r})
			if v.Obstacle != c.obstacle || v.Reason != c.reason || strings.Count(seen, "failed") != 1 {
				t.Errorf("%s: %s, %q\n%s", name, v.Obstacle, v.Reason, seen)
			}
		})
	}
}

// When the context ends, the work is cancelled, and what the agent reports of its end counts. It has a second for that.
func TestConverseStop(t *testing.T) {
	for name, c := range map[string]struct {
		end    string // of an agent that is told to cancel; empty if it does not react
		tokens int64
		takes  time.Duration
	}{
		"it obeys":         {`{"stopReason":"cancelled","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}`, 3, 0},
		"it does not care": {"", 0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var stopped time.Time
			r, _ := converse(ctx, Conversation{}, func(f *fake) int {
				p := f.prompted()
				stopped = time.Now()
				cancel()
				f.expect("session/cancel")
				if c.end != "" {
					f.result(p, c.end)
				}
				return f.rest()
			})
			if took := time.Since(stopped); r.Tokens() != c.tokens || took != c.takes {
				t.Errorf("%s: %d tokens after %v", name, r.Tokens(), took)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, seen := converse(ctx, Conversation{}, func(f *fake) int { return f.rest() }); seen != "" {
		t.Errorf("a call that was stopped has reported %s", seen)
	}
}
