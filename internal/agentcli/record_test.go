package agentcli

import (
	"strings"
	"testing"
)

// The usage is that of the source that knows it best.
func TestEndUsage(t *testing.T) {
	used := func(n int64) Report { return Report{Known: true, Models: Models{"m": {Output: n}}} }
	with := func(r Report, change func(*Report)) Report {
		change(&r)
		return r
	}
	ended := func(r *Report) { r.Ended = true }
	cumulative := func(r *Report) { r.Ended, r.Cumulative = true, true }
	for name, c := range map[string]struct {
		output, session Report
		from            Source
	}{
		"nothing":                          {Report{}, Report{}, FromStream},
		"only the output":                  {used(5), Report{}, FromStream},
		"only the file":                    {Report{}, used(5), FromSession},
		"on the way":                       {used(5), used(5), FromSession},
		"on the way, the file lags":        {used(6), used(5), FromStream},
		"at the end":                       {with(used(5), ended), used(5), FromStream},
		"at the end, with subagents":       {with(used(5), ended), used(6), FromSession},
		"the total of the session":         {with(used(9), cumulative), used(5), FromSession},
		"the total of the session, alone":  {with(used(9), cumulative), Report{}, FromStream},
		"the file is cut off, as it seems": {with(used(9), ended), used(5), FromStream},
	} {
		if _, from := (End{Output: c.output, Session: c.session}).Usage(); from != c.from {
			t.Errorf("%s: from the %s, expected from the %s", name, from, c.from)
		}
	}
}

// What was exported over OTLP counts where it says more.
func TestAddExport(t *testing.T) {
	exported := func(tokens int64, dollars float64) Report {
		return Report{Known: true, Models: Models{"m": {Output: tokens, Dollars: dollars}}}
	}
	session := Report{Known: true, Models: Models{"m": {Output: 5}}}
	total := Report{Known: true, Cumulative: true, Models: Models{"m": {Output: 50, Dollars: 5}}}
	ended := Report{Known: true, Ended: true, Models: Models{"m": {Output: 9, Dollars: 3}}}
	for name, c := range map[string]struct {
		end  End
		want Usage
		from Source
	}{
		"nothing": {End{}, Usage{}, ""},
		"alone":   {End{Exported: exported(5, 1)}, Usage{Output: 5, Dollars: 1}, FromExport},
		"dollars": {
			End{Session: session, Exported: exported(5, 1)}, Usage{Output: 5, Dollars: 1}, FromSession,
		},
		"it is behind": {
			End{Session: session, Exported: exported(3, 1)}, Usage{Output: 5, Dollars: 1}, FromSession,
		},
		"it is ahead": {
			End{Session: session, Exported: exported(7, 2)}, Usage{Output: 7, Dollars: 2}, FromExport,
		},
		"not exported": {End{Session: session}, Usage{Output: 5}, FromSession},
		"the total of a session": {
			End{Output: total, Exported: exported(7, 2)}, Usage{Output: 50, Dollars: 5}, FromStream,
		},
		"the end says more": {
			End{Output: ended, Exported: exported(7, 2)}, Usage{Output: 9, Dollars: 3}, FromStream,
		},
	} {
		c.end.Exported.Turns = 4
		r := c.end.Counts()
		if c.end.Exported.Known && !r.Cumulative && (r.Turns == nil || *r.Turns != 4) {
			t.Errorf("%s: %v turns", name, r.Turns)
		}
		if r.Usage.Total() != c.want || r.UsageFrom != c.from || (r.Tokens == nil) != (c.from == "") {
			t.Errorf("%s: %+v from %q, expected %+v from %q", name, r.Usage, r.UsageFrom, c.want, c.from)
		}
		if session.Models["m"].Dollars != 0 {
			t.Fatal("the report has changed")
		}
	}
}

// The file of a subagent of codex names the session of which it is.
func TestCodexSubagent(t *testing.T) {
	s := Stream{CLI: Codex, Source: FromSession}
	s.Write([]byte(`{"type":"session_meta","payload":{"session_id":"root","id":"sub","cli_version":"0.169.0"}}` + "\n"))
	if r := s.Report(); r.Session != "root" || r.Version != "0.169.0" {
		t.Errorf("%+v", r)
	}
}

// copilot reports its session at the end, and before it the entry of its file that its first event follows.
func TestCopilotOrigin(t *testing.T) {
	r := Read(Copilot, []byte(`{"type":"session.skills_loaded","id":"b","parentId":"a"}
{"type":"user.message","id":"c","parentId":"b"}
{"type":"result","sessionId":"s","exitCode":0}
`))
	if r.Origin != "a" || r.Session != "s" {
		t.Errorf("%+v", r)
	}
}

// What the model has said last is kept, also if a failure follows, and of messages in parts the last one.
func TestSaid(t *testing.T) {
	all := recordings(t)
	const answer = "The answer is forty-two. <aide-summary>Nothing was wrong.</aide-summary>"
	for _, cli := range []CLI{Claude, Codex, Gemini, Opencode, Copilot} {
		if got := Read(cli, all[string(cli)+"/normal"].out).Said; got != answer {
			t.Errorf("%s: %q", cli, got)
		}
	}
	gemini := func(text string) string {
		return `{"type":"message","role":"assistant","delta":true,"content":"` + text + `"}` + "\n"
	}
	long := strings.Repeat("ä", 3*maxSaid)
	for out, expected := range map[string]string{
		gemini("a") + gemini("b"): "ab",
		gemini("a") + `{"type":"tool_use","tool_id":"x"}` + "\n" + gemini("b") + gemini("c"): "bc",
		gemini("a") + `{"type":"result","status":"error","error":{"message":"no"}}` + "\n":   "a",
		gemini(long): long[:maxSaid],
	} {
		if got := Read(Gemini, []byte(out)).Said; got != expected {
			t.Errorf("%.80q: %.80q, expected %.80q", out, got, expected)
		}
	}
}

// A run that has reported that it used nothing is not one that has reported nothing.
func TestNothingUsed(t *testing.T) {
	for known, expected := range map[bool]bool{true: true, false: false} {
		r := End{Output: Report{Known: known}}.Counts()
		if (r.Tokens != nil) != expected || expected && *r.Tokens != 0 {
			t.Errorf("known %v: %v", known, r.Tokens)
		}
	}
}

// What is used without the name of a model is that of the model that the run has named.
func TestModelOfUsage(t *testing.T) {
	for name, c := range map[string]struct {
		used     Models
		expected string
	}{
		"no model is named":   {Models{"": {Input: 5}}, "m"},
		"one is, one is not":  {Models{"": {Input: 5}, "n": {Input: 1}}, ""},
		"another one is used": {Models{"n": {Input: 5}}, "n"},
	} {
		r := End{Output: Report{Model: "m", Known: true, Models: c.used}}.Counts()
		if r.Usage[c.expected].Input != 5 || len(r.Usage) != len(c.used) {
			t.Errorf("%s: %v", name, r.Usage)
		}
	}
}
