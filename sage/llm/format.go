package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Format is the format of a command's stdout. Other formats than Text tell whether there is an
// answer at all. Agents may exit with code 0 after a failure, and report it in place of the
// answer.
type Format string

const (
	Text   Format = ""       // the answer and nothing else
	Claude Format = "claude" // claude -p --output-format json
	Codex  Format = "codex"  // codex exec --json
	Gemini Format = "gemini" // gemini --output-format json
)

// formats are all formats except Text.
var formats = []Format{Claude, Codex, Gemini}

// reportedError is a failure that an agent has reported itself.
type reportedError string

func (e reportedError) Error() string { return string(e) }

func reported(format string, args ...any) error {
	return reportedError(quote(fmt.Sprintf(format, args...)))
}

func (f Format) read(out string) (string, error) {
	switch f {
	case Text:
		return out, nil
	case Claude:
		return readClaude(out)
	case Codex:
		return readCodex(out)
	case Gemini:
		return readGemini(out)
	}
	return "", f.check()
}

func (f Format) check() error {
	if f == Text || slices.Contains(formats, f) {
		return nil
	}
	return fmt.Errorf("unknown output format %.40q: want one of %q, or none for plain text", string(f), formats)
}

func unreadable(f Format, out string, err error) error {
	return fmt.Errorf("its output is not in the format %q (%w); it starts with %q", string(f), err,
		cut(quote(out), 200))
}

// readClaude reads the only result object.
func readClaude(out string) (string, error) {
	var r struct {
		Type    string          `json:"type"`
		Subtype string          `json:"subtype"`
		IsError bool            `json:"is_error"`
		Status  json.RawMessage `json:"api_error_status"`
		Result  string          `json:"result"`
		Reason  string          `json:"terminal_reason"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return "", unreadable(Claude, out, err)
	}
	switch {
	case r.Type != "result":
		return "", unreadable(Claude, out, fmt.Errorf("its type is %.40q, not \"result\"", r.Type))
	case r.IsError, r.Subtype != "success":
		what := "it failed: " + r.Subtype
		if s := string(r.Status); s != "" && s != "null" {
			what += ", status " + s
		}
		return "", reported("%s %s", what, r.Result)
	case r.Reason != "" && r.Reason != "completed":
		return "", reported("it did not finish: %s %s", r.Reason, r.Result)
	}
	return r.Result, nil
}

// readCodex reads a stream of events, one per line. The answer is the last message of the turn,
// provided that the turn was completed.
func readCodex(out string) (string, error) {
	completed, text, last := false, "", ""
	for line := range strings.Lines(out) {
		var e struct {
			Type    string
			Item    struct{ Type, Text string }
			Message string
			Error   struct{ Message string }
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			last = line // a warning, or an event of another shape
			continue
		}
		switch e.Type {
		case "item.completed":
			if e.Item.Type == "agent_message" {
				text = e.Item.Text
			}
		case "error": // it may recover: only turn.failed is final
			last = e.Message
		case "turn.failed":
			return "", reported("it failed: %s", e.Error.Message)
		case "turn.completed":
			completed = true
		}
	}
	if !completed {
		return "", reported("it did not finish its turn: %s", last)
	}
	return text, nil
}

func readGemini(out string) (string, error) {
	var r struct {
		Response string
		Error    *struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return "", unreadable(Gemini, out, err)
	}
	if r.Error != nil {
		return "", reported("it failed: %s %s", r.Error.Type, r.Error.Message)
	}
	return r.Response, nil
}
