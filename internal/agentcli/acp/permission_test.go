package acp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

const (
	choices = `"options":[{"optionId":"always","name":"Always","kind":"allow_always"},` +
		`{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]`
	makeCall = `{"sessionId":"s1","toolCall":{"toolCallId":"c1"},` + choices + `}`
)

func init() {
	// Each asks for permission once, and says what the answer was.
	const call = `{"sessionId":"s1","toolCall":{"toolCallId":"c1"},`
	for name, params := range map[string]string{
		"ask":            makeCall,
		"ask elsewhere":  `{"sessionId":"s9","toolCall":{"toolCallId":"c1","title":"make all"},` + choices + `}`,
		"ask for no":     call + `"options":[{"optionId":"yes","kind":"allow_once"}]}`,
		"ask for always": call + `"options":[{"optionId":"never","kind":"reject_always"}]}`,
		"ask nothing":    `{"sessionId":5,"toolCall":[],"options":{}}`,
		"ask null":       `null`,
	} {
		script(name, func(f *fake) int {
			p := f.prompted()
			f.update(`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"make all","kind":"execute"}`)
			answer := f.ask("7", "session/request_permission", params)
			f.say(string(answer.ID) + " " + string(answer.Result) + string(answer.Error))
			f.result(p, `{"stopReason":"end_turn"}`)
			return f.rest()
		})
	}
}

// What the policy does not allow is refused, and reported. The answer is that of the agent's options that says so.
func TestPermissions(t *testing.T) {
	selected := func(option string) string { return `7 {"outcome":{"outcome":"selected","optionId":"` + option + `"}}` }
	const cancelled = `7 {"outcome":{"outcome":"cancelled"}}`
	chooses := func(option string) Policy {
		return func(context.Context, PermissionRequest) string { return option }
	}
	for _, c := range []struct {
		name, script, answer string
		policy               Policy
		denied               int
	}{
		{"no policy", "ask", selected("no"), nil, 1},
		{"allows", "ask", selected("yes"), chooses("yes"), 0},
		{"allows always", "ask", selected("always"), chooses("always"), 0},
		{"refuses", "ask", selected("no"), chooses(""), 1},
		{"chooses a refusal", "ask", selected("no"), chooses("no"), 1},
		{"chooses what is not offered", "ask", selected("no"), chooses("sudo"), 1},
		{"nothing to refuse with", "ask for no", cancelled, nil, 1},
		{"only to refuse for ever", "ask for always", selected("never"), chooses("never"), 1},
		{"of an unknown session", "ask elsewhere", selected("yes"), chooses("yes"), 0},
		{"of unexpected types", "ask nothing", cancelled, chooses("yes"), 0},
		{"nothing", "ask null", cancelled, chooses(""), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := must(t, c.script, Options{Permit: c.policy})
			if _, err := a.Prompt(t.Context(), "s1", "go"); err != nil {
				t.Fatal(err)
			}
			if got := a.Report(); got.Text != c.answer || c.denied == 1 && got.Denied != 1 {
				t.Errorf("%s, %d denied", got.Text, got.Denied)
			}
			if got := strings.Contains(a.seen(), "denied s1 c1 make all\n"); got != (c.denied == 1) {
				t.Error(a.seen())
			}
			if v := a.verdict(""); c.denied == 1 && v.Obstacle != outcome.PermissionDenied {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A request for permission says what the agent has said of the call before.
func TestPermissionRequest(t *testing.T) {
	asked := make(chan PermissionRequest, 1)
	a := must(t, "ask", Options{Permit: func(_ context.Context, r PermissionRequest) string {
		asked <- r
		return r.Option(AllowOnce)
	}})
	if _, err := a.Prompt(t.Context(), "s1", "go"); err != nil {
		t.Fatal(err)
	}
	r := <-asked
	if got := fmt.Sprintf("%s %s %s %s %v", r.Session, r.Call, r.Title, r.Kind, r.Options); got !=
		"s1 c1 make all execute [{always Always allow_always} {yes Yes allow_once} {no No reject_once}]" {
		t.Error(got)
	}
}

var _ = script("ask in vain", func(f *fake) int {
	p := f.prompted()
	f.line(`{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":` + makeCall + `}`)
	var said []string
	for range 3 {
		switch r := f.next(); r.Method {
		case "session/cancel":
			said = append(said, "cancel")
			f.line(`{"jsonrpc":"2.0","id":"b","method":"session/request_permission","params":` + makeCall + `}`)
		default:
			said = append(said, string(r.ID)+string(r.Result))
		}
	}
	f.say(strings.Join(said, " "))
	f.result(p, `{"stopReason":"cancelled"}`)
	return f.rest()
})

// Cancel answers requests for permission that are open, and those that come after it.
func TestCancel(t *testing.T) {
	asked := make(chan bool, 1)
	a := must(t, "ask in vain", Options{Permit: func(ctx context.Context, _ PermissionRequest) string {
		asked <- true
		<-ctx.Done()
		return "yes"
	}})
	cancelled := make(chan error, 1)
	go func() {
		<-asked
		cancelled <- a.Cancel(t.Context(), "s1")
	}()
	r, err := a.Prompt(t.Context(), "s1", "go")
	if r.StopReason != Cancelled || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	const no = `{"outcome":{"outcome":"cancelled"}}`
	if got := a.Report(); got.Text != `cancel "a"`+no+` "b"`+no || got.Denied != 0 {
		t.Errorf("%s, %d denied", got.Text, got.Denied)
	}
	v := agentcli.Classify(agentcli.End{CLI: agentcli.ACP, Output: a.Report(), Stopped: agentcli.ByOperator})
	if v.Kind != outcome.Deferred {
		t.Errorf("%+v", v)
	}
}

// A prompt whose context ends is cancelled. What the agent still reports counts.
func TestPromptContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	a := must(t, "obeys", Options{Event: func(e agentcli.Event) {
		if e.Kind == agentcli.Message {
			cancel(errors.New("enough"))
		}
	}})
	if _, err := a.Prompt(ctx, "s1", "go"); err == nil || err.Error() != "session/prompt: enough" {
		t.Error(err)
	}
	<-a.Done() // the agent ends after its answer
	if got := a.Report(); got.Tokens() != 3 || !got.Ended || !got.Failed {
		t.Errorf("%+v", got)
	}
}

var _ = script("obeys", func(f *fake) int {
	p := f.prompted()
	f.say("on it")
	f.expect("session/cancel")
	f.result(p, `{"stopReason":"cancelled","usage":{"totalTokens":3,"inputTokens":1,"outputTokens":2}}`)
	return 0
})

var _ = script("withdraws", func(f *fake) int {
	p := f.prompted()
	f.line(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":` + makeCall + `}`)
	f.line(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
	f.line(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}}`)
	f.line(`{"jsonrpc":"2.0","method":"$/cancel_request"}`)
	f.say(string(f.next().Result))
	f.result(p, `{"stopReason":"end_turn"}`)
	return f.rest()
})

// An agent can withdraw a request.
func TestWithdraw(t *testing.T) {
	a := must(t, "withdraws", Options{Permit: func(ctx context.Context, _ PermissionRequest) string {
		<-ctx.Done()
		return "yes"
	}})
	if _, err := a.Prompt(t.Context(), "s1", "go"); err != nil {
		t.Fatal(err)
	}
	if got := a.Report().Text; got != `{"outcome":{"outcome":"cancelled"}}` {
		t.Error(got)
	}
}

var _ = script("insists", func(f *fake) int {
	p := f.prompted()
	f.line(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":` + makeCall + `}`)
	f.line(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":` + makeCall + `}`)
	same := f.next()
	for i := range maxOpen + 4 {
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":%s}`, i+1,
			makeCall))
	}
	refused := 0
	for range 5 { // those over the bound
		if strings.Contains(string(f.next().Result), `"no"`) {
			refused++
		}
	}
	f.say(fmt.Sprint(string(same.Error), refused))
	f.result(p, `{"stopReason":"end_turn"}`)
	return f.rest()
})

// A flood of requests for permission does not wait for the policy.
func TestManyPermissions(t *testing.T) {
	a := must(t, "insists", Options{Permit: func(ctx context.Context, _ PermissionRequest) string {
		<-ctx.Done()
		return ""
	}})
	if _, err := a.Prompt(t.Context(), "s1", "go"); err != nil {
		t.Fatal(err)
	}
	if got := a.Report().Text; got != `{"code":-32600,"message":"a request with this ID is open"}5` {
		t.Error(got)
	}
}

var _ = script("asks for more", func(f *fake) int {
	p := f.prompted()
	for _, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create",
		"none\u001b[31m"} {
		r := f.ask(`"x"`, method, `{}`)
		f.say(string(r.ID) + string(r.Error) + "\n")
	}
	f.result(p, `{"stopReason":"end_turn"}`)
	return f.rest()
})

// The client offers neither files nor terminals.
func TestOtherRequests(t *testing.T) {
	a := must(t, "asks for more", Options{Permit: func(context.Context, PermissionRequest) string { return "yes" }})
	if _, err := a.Prompt(t.Context(), "s1", "go"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(a.Report().Text, "\n")
	for i, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create",
		"elicitation/create", "none"} {
		expected := `"x"{"code":-32601,"message":"the client does not have the method ` + method + `"}`
		if i >= len(lines) || lines[i] != expected {
			t.Errorf("%q, expected %s", lines, expected)
		}
	}
}

// Kinds of tools are allowed once, as are the tools of one MCP server.
func TestAllow(t *testing.T) {
	permit := Allow([]string{"read", "other kind"}, "coppice")
	for _, c := range []struct {
		kind, title string
		allowed     bool
	}{
		{"read", "x", true},
		{"execute", "x", false},
		{"", "x", false},
		{"other", "x", false},
		{"other", "mcp__coppice__task_list", true},
		{"other", "ready (coppice MCP Server)", true},
		{"execute", "mcp__coppice__task_list", false}, // the model chooses the text of a command
		{"other", "mcp__coppice__", false},
		{"other", "mcp__coppice__x; rm -rf /", false},
		{"other", "mcp__other__task_list", false},
		{"other", "rm (other MCP Server) (coppice MCP Server)", false},
	} {
		r := PermissionRequest{Kind: c.kind, Title: c.title, Options: []Option{{"2", "", AllowAlways}, {"1", "", AllowOnce}}}
		if got := permit(t.Context(), r); (got == "1") != c.allowed || got == "2" {
			t.Errorf("%s %q: %q", c.kind, c.title, got)
		}
	}
	if permit(t.Context(), PermissionRequest{Kind: "read", Options: []Option{{"2", "", AllowAlways}}}) != "" {
		t.Error("what is not asked for again was allowed")
	}
	if Allow([]string{"other"}, "")(t.Context(), PermissionRequest{Options: []Option{{"1", "", AllowOnce}}}) != "1" {
		t.Error("a tool without a kind is one of another kind")
	}
}
