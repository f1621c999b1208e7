package agentcli

import (
	"bytes"
	"strconv"
	"strings"
)

// adapter reads what a command line writes. Each function emits the events of one object or line.
type adapter struct {
	cli     CLI
	output  func(object []byte, emit func(Event))
	session func(object []byte, emit func(Event))
	stderr  func(line string, emit func(Event)) // nil if it says nothing there
	exit    func(code int) Failure              // nil if its exit codes mean nothing
}

// adapters returns all adapters.
func adapters() []adapter {
	return []adapter{
		{Claude, claudeOutput, claudeSession, nil, nil},
		{Codex, codexOutput, codexSession, codexStderr, nil},
		{Gemini, geminiOutput, geminiSession, geminiStderr, geminiExit},
		{Opencode, opencodeOutput, opencodeSession, opencodeStderr, nil},
		{Copilot, copilotOutput, copilotSession, copilotStderr, nil},
	}
}

func noSession([]byte, func(Event)) {}

func adapterOf(cli CLI) adapter {
	for _, a := range adapters() {
		if a.cli == cli {
			return a
		}
	}
	return adapter{cli: Plain, output: noSession, session: noSession}
}

// untyped reports whether an object has no type: a program may have the name of a command line, and print objects of
// its own.
func untyped(object []byte) bool {
	var o struct {
		Type string `json:"type"`
	}
	return decode(object, &o) && o.Type == ""
}

// recognize returns the command line that writes such an object, or Plain.
func recognize(object []byte) CLI {
	var o struct {
		Type        string  `json:"type"`
		OpenSession string  `json:"sessionID"`
		Session     string  `json:"sessionId"`
		Subtype     *string `json:"subtype"`
		IsError     *bool   `json:"is_error"`
		Status      string  `json:"status"`
		Severity    string  `json:"severity"`
		Tool        string  `json:"tool_name"`
		Call        string  `json:"tool_id"`
		ExitCode    number  `json:"exitCode"`
		Message     any     `json:"message"`
		Response    *string `json:"response"`
		Error       any     `json:"error"`
		Stats       stats   `json:"stats"`
	}
	if !decode(object, &o) {
		return Plain
	}
	prefix, _, dotted := strings.Cut(o.Type, ".")
	_, messageIsText := o.Message.(string)
	_, errorIsObject := o.Error.(map[string]any)
	switch {
	case o.OpenSession != "":
		return Opencode
	case o.Type == "result" && o.Session != "" && some(o.ExitCode):
		return Copilot
	case o.Type == "result" && o.Subtype == nil && o.IsError == nil && o.Status != "":
		return Gemini
	case o.Type == "result":
		return Claude
	case o.Type == "error" && o.Severity != "":
		return Gemini
	case o.Type == "error" && messageIsText:
		return Codex
	case dotted:
		switch prefix {
		case "thread", "turn", "item":
			return Codex
		case "session", "assistant", "model", "tool", "user", "agent", "system":
			return Copilot
		}
	case o.Tool != "" && o.Type == "tool_use", o.Call != "" && o.Type == "tool_result":
		return Gemini
	}
	switch o.Type {
	case "system", "assistant", "user", "stream_event", "rate_limit_event":
		return Claude
	case "init", "message":
		return Gemini
	case "":
		if _, known := o.Stats.models(); known || o.Response != nil || errorIsObject {
			return Gemini
		}
	}
	return Plain
}

// plain reads an object of a command of the user's own: a usage, and an answer or a failure if it has
// one. Without a type it is a result.
func (s *Stream) plain(object []byte) {
	var o struct {
		Type       string      `json:"type"`
		IsError    bool        `json:"is_error"`
		Result     string      `json:"result"`
		Usage      counts      `json:"usage"`
		ModelUsage modelCounts `json:"modelUsage"`
		counts
	}
	if !decode(object, &o) {
		return
	}
	all, known := o.ModelUsage.models()
	if !known {
		var u Usage
		if u, known = o.Usage.usage(); !known && o.Type == "" {
			u, known = o.counts.usage()
		}
		all = Models{"": u}
	}
	if known {
		s.add(Event{Kind: Tokens, Scope: OfRun, Models: all})
	}
	switch {
	case o.Type != "":
	case o.IsError:
		s.add(Event{Kind: Failed, Failure: Failure{Text: o.Result, Source: FromStream}})
		s.add(Event{Kind: Result, Text: o.Result, Failed: true})
	case o.Result != "":
		s.add(Event{Kind: Turn})
		s.add(Event{Kind: Result, Text: o.Result})
	case known: // a command that reports only its tokens may continue
		s.add(Event{Kind: Step})
	}
}

// ReadUsage parses the usage file of a command. The file has a line for each call, with a number of
// tokens or an object with a usage, or it is one such object.
func ReadUsage(text []byte) (tokens int64, known bool) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		n, err := strconv.ParseInt(string(line), 10, 64)
		ok := err == nil
		if !ok {
			r := Read(Plain, line)
			n, ok = r.Tokens(), r.Known
		}
		if ok {
			tokens, known = Add(tokens, n), true
		}
	}
	if !known {
		if r := Read(Plain, text); r.Known {
			return r.Tokens(), true
		}
	}
	return tokens, known
}
