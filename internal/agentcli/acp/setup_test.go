package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// initializations are agents that Dial does not accept.
var initializations = map[string]struct {
	do  func(*fake) int
	err string
}{
	"no agent": {func(f *fake) int {
		f.line("usage: \x1b[31mthing\x1b[0m FILE")
		return 2
	}, `initialize: the agent has ended: exit status 2 (its output begins with "usage: thing FILE")`},
	"another version": {func(f *fake) int { f.begin(`{"protocolVersion":2}`); return f.rest() },
		"initialize: the agent speaks version 2 of ACP, expected 1"},
	"no version": {func(f *fake) int { f.begin(`{}`); return f.rest() },
		"initialize: the agent has answered without a version; is it an ACP agent?"},
	"null": {func(f *fake) int { f.begin(`null`); return f.rest() },
		"initialize: the agent has answered without a version; is it an ACP agent?"},
	"an error": {func(f *fake) int {
		f.fail(f.expect("initialize"), `{"code":-32601,"message":"Method not found"}`)
		return f.rest()
	}, "initialize: Method not found"},
	"ends": {func(*fake) int { return 0 }, "initialize: the agent has ended"},
}

func init() {
	for name, c := range initializations {
		scripts["initialize: "+name] = c.do
	}
}

func TestInitialize(t *testing.T) {
	for name, c := range initializations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, "initialize: "+name, Options{})
			if err == nil || err.Error() != c.err {
				t.Errorf("%v\nexpected %s", err, c.err)
			}
		})
	}
}

// An agent that does not answer initialize is given up after a time.
func TestInitializeDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		out, err string
	}{
		"silent": {"", "the agent has not answered initialize within 30s; is it an ACP agent?"},
		"noisy": {"hello\n", "the agent has not answered initialize within 30s; is it an ACP agent? " +
			`(its output begins with "hello")`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := inProcess(t.Context(), func(f *fake) int {
					io.WriteString(f.out, c.out)
					f.expect("initialize")
					return f.rest()
				}, Options{})
				if err == nil || err.Error() != c.err || time.Since(begin) != 30*time.Second {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := inProcess(ctx, func(f *fake) int { return f.rest() }, Options{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

var _ = script("sessions", func(f *fake) int {
	f.begin(everything)
	for {
		switch r := f.next(); r.Method {
		case "session/new":
			f.result(r, `{"sessionId":""}`)
		case "session/load":
			f.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"question"}}`)
			f.say("old answer")
			f.update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"old","status":"completed"}`)
			f.update(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":3,"currency":"USD"}}`)
			f.result(r, `null`)
		case "session/resume":
			if strings.Contains(string(r.Params), "lost") {
				f.fail(r, `{"code":-32002,"message":"Resource not found"}`)
			} else {
				f.result(r, `{"models":{"currentModelId":"model-3"}}`)
			}
		case "session/prompt":
			f.update(`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":3.5,"currency":"USD"}}`)
			f.say("new answer")
			f.result(r, `{"stopReason":"end_turn","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}`)
		case "session/close":
			f.result(r, `{}`)
		}
	}
})

// The history of a session that continues is neither passed on nor counted.
func TestLoad(t *testing.T) {
	a, err := run(t, "sessions", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Load(t.Context(), "s1", "/work", []MCPServer{{Name: "x", Command: "/x"}}); err != nil {
		t.Fatal(err)
	}
	r, err := a.Prompt(t.Context(), "s1", "go")
	if err != nil || r.Usage.Dollars != 0.5 {
		t.Errorf("%+v, %v", r, err)
	}
	a.Close()
	if d := cmp.Diff("session s1 1.2.3\nturn s1\nmessage s1 \"new answer\"\ntokens s1  1 0 0 2 0.50\nresult s1\n",
		a.seen()); d != "" {
		t.Error(d)
	}
}

// Sessions that cannot begin or continue.
func TestSessions(t *testing.T) {
	a, err := run(t, "sessions", Options{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(err error, expected string) {
		t.Helper()
		if got := fmt.Sprint(err); got != expected {
			t.Errorf("%s\nexpected %s", got, expected)
		}
	}
	ctx := t.Context()
	_, err = a.New(ctx, "work", nil)
	expect(err, `the directory of a session is an absolute path, not "work"`)
	_, err = a.New(ctx, "/work", nil)
	expect(err, "session/new: the agent has answered without the ID of a new session")
	expect(a.Resume(ctx, "", "/work", nil), `"" is not the ID of a session`)
	expect(a.Resume(ctx, "lost", "/work", nil), "session/resume: Resource not found")
	if v := a.verdict(""); v.Obstacle != outcome.SessionLost {
		t.Errorf("%+v", v)
	}
	expect(a.Resume(ctx, "s1", "/work", nil), "<nil>")
	expect(a.Load(ctx, "s1", "/work", nil), `session "s1" is in use already`)
	if m := a.Report().Model; m != "model-3" {
		t.Error(m)
	}
	_, err = a.Prompt(ctx, "s2", "go")
	expect(err, `unknown session "s2"`)
	expect(a.Cancel(ctx, "s2"), `unknown session "s2"`)
	expect(a.Cancel(ctx, "s1"), "<nil>")
	expect(a.CloseSession(ctx, "s1"), "<nil>")
	expect(a.CloseSession(ctx, "s1"), `unknown session "s1"`)
}

var _ = script("bare", func(f *fake) int {
	f.begin(`{"protocolVersion":1}`)
	f.result(f.expect("session/new"), `{"sessionId":"s1"}`)
	f.expect("session/cancel")
	return f.rest()
})

// What an agent does not support is not asked for.
func TestUnsupported(t *testing.T) {
	a := must(t, "bare", Options{})
	for err, expected := range map[error]string{
		a.Load(t.Context(), "x", "/work", nil): "the agent without a name cannot load sessions: " +
			"it does not have the capability loadSession: unsupported operation",
		a.Resume(t.Context(), "x", "/work", nil): "the agent without a name cannot resume sessions: " +
			"it does not have the capability sessionCapabilities.resume: unsupported operation",
	} {
		if !errors.Is(err, errors.ErrUnsupported) || err.Error() != expected {
			t.Error(err)
		}
	}
	if err := a.CloseSession(t.Context(), "s1"); err != nil {
		t.Error(err)
	}
}
