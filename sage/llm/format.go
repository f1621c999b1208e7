package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Format is the format of a command's stdout. With another than Text it is known
// whether there is an answer at all: agents may end with code 0 after they have
// failed, and say why where the answer should be.
type Format string

const (
	Text   Format = ""       // the answer, and nothing else
	Claude Format = "claude" // claude -p --output-format json
	Codex  Format = "codex"  // codex exec --json
	Gemini Format = "gemini" // gemini --output-format json
)

// Formats are the names of all formats but Text.
func Formats() []Format { return []Format{Claude, Codex, Gemini} }

// saidError is a failure that an agent has reported itself.
type saidError struct{ what string }

func (e *saidError) Error() string { return e.what }

func said(format string, args ...any) error { return &saidError{quote(fmt.Sprintf(format, args...))} }

func (f Format) read(out string) (text string, used Usage, err error) {
	switch f {
	case Text:
		return out, Usage{}, nil
	case Claude:
		return readClaude(out)
	case Codex:
		return readCodex(out)
	case Gemini:
		return readGemini(out)
	}
	return "", Usage{}, f.check()
}

func (f Format) check() error {
	if f == Text || slices.Contains(Formats(), f) {
		return nil
	}
	return fmt.Errorf("there is no output format %.40q: want one of %q, or none for plain text", string(f), Formats())
}

func unreadable(f Format, out string, err error) error {
	return fmt.Errorf("what it wrote is not in the format %q (%w); it begins with %q", string(f), err,
		cut(quote(out), 200))
}

// readClaude reads the one result object. Its usage is that of the last turn
// only; modelUsage is the whole, for each model.
func readClaude(out string) (string, Usage, error) {
	var r struct {
		Type    string          `json:"type"`
		Subtype string          `json:"subtype"`
		IsError bool            `json:"is_error"`
		Status  json.RawMessage `json:"api_error_status"`
		Result  string          `json:"result"`
		Reason  string          `json:"terminal_reason"`
		Usage   json.RawMessage `json:"modelUsage"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return "", Usage{}, unreadable(Claude, out, err)
	}
	var models map[string]struct {
		Input   float64 `json:"inputTokens"`
		Read    float64 `json:"cacheReadInputTokens"`
		Created float64 `json:"cacheCreationInputTokens"`
		Output  float64 `json:"outputTokens"`
	}
	json.Unmarshal(r.Usage, &models) // not worth losing an answer for
	var used Usage
	for _, m := range models {
		used.PromptTokens += tokens(m.Input) + tokens(m.Read) + tokens(m.Created)
		used.CompletionTokens += tokens(m.Output)
	}
	switch {
	case r.Type != "result":
		return "", used, unreadable(Claude, out, fmt.Errorf("its type is %.40q, not \"result\"", r.Type))
	case r.IsError, r.Subtype != "success":
		what := "it failed: " + r.Subtype
		if s := string(r.Status); s != "" && s != "null" {
			what += ", status " + s
		}
		return "", used, said("%s %s", what, r.Result)
	case r.Reason != "" && r.Reason != "completed":
		return "", used, said("it did not finish: %s %s", r.Reason, r.Result)
	}
	return r.Result, used, nil
}

// readCodex reads a stream of events, one a line. The answer is the last
// message of the turn, and there is one only if the turn was completed.
func readCodex(out string) (text string, used Usage, err error) {
	completed, last := false, ""
	for line := range strings.Lines(out) {
		var e struct {
			Type    string
			Item    struct{ Type, Text string }
			Message string
			Error   struct{ Message string }
			Usage   json.RawMessage
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
		case "error": // it may go on after it: only turn.failed is final
			last = e.Message
		case "turn.failed":
			return "", used, said("it failed: %s", e.Error.Message)
		case "turn.completed":
			completed = true
			var u struct {
				Input  float64 `json:"input_tokens"`
				Output float64 `json:"output_tokens"`
			}
			json.Unmarshal(e.Usage, &u)
			used.PromptTokens, used.CompletionTokens = tokens(u.Input), tokens(u.Output)
		}
	}
	if !completed {
		return "", used, said("it did not finish its turn: %s", last)
	}
	return text, used, nil
}

func readGemini(out string) (string, Usage, error) {
	var r struct {
		Response string
		Error    *struct{ Type, Message string }
		Stats    json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return "", Usage{}, unreadable(Gemini, out, err)
	}
	var stats struct {
		Models map[string]struct {
			Tokens struct{ Prompt, Candidates, Thoughts float64 }
		}
	}
	json.Unmarshal(r.Stats, &stats)
	var used Usage
	for _, m := range stats.Models {
		used.PromptTokens += tokens(m.Tokens.Prompt)
		used.CompletionTokens += tokens(m.Tokens.Candidates) + tokens(m.Tokens.Thoughts)
	}
	if r.Error != nil {
		return "", used, said("it failed: %s %s", r.Error.Type, r.Error.Message)
	}
	return r.Response, used, nil
}

// tokens returns the number of tokens that a model reports, from 0 to 2^40.
func tokens(n float64) int64 { return int64(min(max(n, 0), 1<<40)) }
