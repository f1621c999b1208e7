package fakemodel

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// modes returns the names of both ways to answer.
func modes() map[string]bool { return map[string]bool{"whole": false, "stream": true} }

// stops returns the words for why an answer ends: normally, with a call, at its maximum, declined.
func stops(api string) [4]string {
	return map[string][4]string{
		"anthropic": {"end_turn", "tool_use", "max_tokens", "refusal"},
		"responses": {"completed", "completed", "max_output_tokens", "content_filter"},
		"chat":      {"stop", "tool_calls", "length", "content_filter"},
		"gemini":    {"STOP", "STOP", "MAX_TOKENS", "SAFETY"},
	}[api]
}

// shellTool returns the shell tool that the requests of an API offer.
func shellTool(api string) string {
	return map[string]string{
		"anthropic": "Bash", "responses": "shell", "chat": "bash", "gemini": "run_shell_command",
	}[api]
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const title = "A title"
	wanted := object{"type": "object", "properties": object{
		"name": object{"type": "string"}, "n": object{"type": []any{"integer", "null"}}}}
	for _, a := range apis() {
		shell, stop := shellTool(a.name), stops(a.name)
		for _, test := range []struct {
			scenario   string
			body       object
			text       string
			tool, args string
			stop       string
			times      float64
			side       bool
		}{
			{scenario: "normal", text: Answer},
			{scenario: "normal=3", text: Answer, times: 3},
			{scenario: "normal=0.5", text: Answer, times: 0.5},
			{scenario: "slow=0", text: Answer},
			{scenario: "tool", tool: shell, args: `{"command":"echo fake-tool-ran"}`},
			{scenario: "tool=ls -l, a/b", tool: shell, args: `{"command":"ls -l, a/b"}`},
			{scenario: "tool", body: with(a.main(), a.result), text: Answer},
			{scenario: "tool", body: with(a.plain, a.schemalessTools()), text: Answer},
			{scenario: "loop", body: with(a.main(), a.result), tool: shell, args: `{"command":"echo again"}`},
			{scenario: `call=note:{"text":"a, b"}`, tool: "c_note", args: `{"text":"a, b"}`},
			{scenario: "call=note", body: with(a.main(), a.result), text: Answer},
			{scenario: "call=nothing", text: "There is no such tool as nothing among " + shell + ", c_note"},
			{scenario: `json={"ok": [1, 2]}`, text: `{"ok": [1, 2]}`},
			{scenario: "json=", text: ""},
			{scenario: "maxtokens", text: Answer, stop: stop[2]},
			{scenario: "refusal", text: "I cannot help with that.", stop: stop[3]},
			{scenario: "normal=3", body: a.plain, text: title, side: true},
			{scenario: "tool", body: a.plain, text: title, side: true},
			{scenario: "refusal", body: a.plain, text: title, side: true},
			{scenario: "tool", body: with(a.main(), a.schema(wanted)), side: true,
				text: "{\n \"n\": 1,\n \"name\": \"fake name\"\n}"},
		} {
			if test.body == nil {
				test.body = a.main()
			}
			if test.stop == "" {
				test.stop = stop[0]
			}
			if test.tool != "" {
				test.stop = stop[1]
			}
			if test.times == 0 {
				test.times = 1
			}
			for mode, stream := range modes() {
				t.Run(fmt.Sprintf("%s/%s/%s", a.name, test.scenario, mode), func(t *testing.T) {
					t.Parallel()
					used, kind, step := AnswerUsage().times(test.times), KindMain, test.scenario
					if step == "json=" {
						step = "json"
					}
					if test.side {
						used, kind, step = AnswerUsage(), KindSide, "normal"
					}

					c := newClient(t)
					got := c.ask(a, stream, test.scenario, "t", test.body)
					if got.status != http.StatusOK || got.readErr != nil || !got.complete || got.broken ||
						got.outOfOrder {
						t.Fatalf("the answer is wrong: %+v", got)
					}
					if got.text != test.text || got.tool != test.tool || got.args != test.args ||
						got.stop != test.stop {
						t.Errorf("got %q, %s(%s), %s; want %q, %s(%s), %s", got.text, got.tool, got.args, got.stop,
							test.text, test.tool, test.args, test.stop)
					}
					if want := a.told(used); got.usage != want {
						t.Errorf("the usage is %+v, want %+v", got.usage, want)
					}
					row := c.only("t")
					want := Request{
						N: 1, Tag: "t", Scenario: test.scenario, Step: step, API: a.name, Path: pathOf(a, stream),
						Method: http.MethodPost, Model: a.model(), Stream: stream, Kind: kind, Status: 200, Sent: true,
						Messages: row.Messages, Seconds: row.Seconds, Usage: used,
					}
					if row != want || row.Messages == 0 {
						t.Errorf("the ledger has\n%+v, want\n%+v", row, want)
					}
				})
			}
		}
	}
}

// pathOf returns the path of an API in the ledger.
func pathOf(a api, stream bool) string {
	path, _, _ := strings.Cut(a.path(stream), "?")
	return path
}

// schemalessTools returns tools none of which runs commands.
func (a api) schemalessTools() object {
	switch a.name {
	case "anthropic", "responses":
		return object{"tools": []any{object{"name": "other"}, object{"no": "name"}, 1}}
	case "chat":
		return object{"tools": []any{object{"function": object{"name": "other"}}}}
	}
	return object{"tools": []any{object{"functionDeclarations": []any{object{"name": "other"}}}}}
}

// A client that has tools of MCP servers on demand is told to search for them, once.
func TestToolSearch(t *testing.T) {
	t.Parallel()
	const list = "These are deferred:\nmcp__other__noted\nmcp__my-server__note\n"
	search := object{"tools": []any{object{"name": toolSearch}}}
	asked := object{"role": "user", "content": list}
	searched := object{"role": "assistant", "content": []any{object{"type": "tool_use", "name": toolSearch}}}
	found := object{"role": "user", "content": []any{object{"type": "tool_result", "content": "found"}}}
	c, a := newClient(t), apis()[0]
	for _, test := range []struct {
		body       object
		tool, args string
	}{
		{with(search, object{"messages": []any{asked}}), toolSearch,
			`{"max_results":5,"query":"select:mcp__my-server__note"}`},
		{with(search, object{"messages": []any{}}), toolSearch, `{"max_results":5,"query":"select:note"}`},
		{with(search, object{"messages": []any{asked, searched, found}}), "", ""},
		{object{"messages": []any{asked, searched, found}, "tools": []any{object{"name": "mcp__my-server__note"}}},
			"mcp__my-server__note", `{"text":"x"}`},
	} {
		if got := c.ask(a, false, `call=note:{"text":"x"}`, "t", test.body); got.tool != test.tool || got.args != test.args {
			t.Errorf("got %s(%s), want %s(%s)", got.tool, got.args, test.tool, test.args)
		}
	}
}

// Codex has tools in namespaces, and a shell of its own.
func TestResponsesTools(t *testing.T) {
	t.Parallel()
	c, a := newClient(t), apis()[1]
	note := []any{object{"name": "note", "parameters": noteSchema()}}
	for _, test := range []struct {
		scenario   string
		tools      []any
		tool, args string
	}{
		{"call=note", []any{object{"type": "namespace", "name": "mcp__c__", "tools": note}}, "mcp__c__note", "{}"},
		{"call=note", []any{object{"type": "namespace", "name": "c", "tools": note}}, "c: note", "{}"},
		{"call=note", []any{
			object{"type": "function", "name": "note", "parameters": noteSchema()},
			object{"type": "namespace", "name": "c", "tools": note},
		}, "note", "{}"},
		{"tool=ls", []any{object{"type": "local_shell"}}, toolLocalShell, `["sh","-c","ls"]`},
		{"call=local_shell", []any{object{"type": "local_shell"}}, toolLocalShell, `["sh","-c","true"]`},
		{"tool", []any{object{"type": "web_search", "name": "bash"}}, "", ""},
	} {
		for _, stream := range modes() {
			body := with(a.plain, object{"tools": test.tools})
			got := c.ask(a, stream, test.scenario, "t", body)
			if got.tool != test.tool || got.args != test.args || !got.complete {
				t.Errorf("%s: got %s(%s), want %s(%s)", test.scenario, got.tool, got.args, test.tool, test.args)
			}
		}
	}
}

// A schema has another place in older requests of Anthropic's API, and in some of Gemini's.
func TestOtherSchemas(t *testing.T) {
	t.Parallel()
	c, all := newClient(t), apis()
	schema := object{"schema": object{"type": "integer"}}
	for _, got := range []outcome{
		c.ask(all[0], false, "tool", "t", with(all[0].main(), object{"output_format": schema})),
		c.ask(all[3], false, "tool", "t", with(all[3].main(),
			object{"generationConfig": object{"responseSchema": schema["schema"]}})),
	} {
		if got.text != "1" || got.tool != "" {
			t.Errorf("got %+v", got)
		}
	}
}

// Usage is streamed by Chat Completions only if the client wants it.
func TestChatUsage(t *testing.T) {
	t.Parallel()
	c, a := newClient(t), apis()[2]
	got := c.ask(a, true, "normal", "t", with(a.main(), object{"stream_options": nil}))
	if (got.usage != tokens{}) || !got.complete || got.text != Answer {
		t.Errorf("got %+v, want no usage", got)
	}
}
