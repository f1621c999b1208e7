package agentcli

import (
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// opencodePart is a part of a message of opencode.
type opencodePart struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Tool   string `json:"tool"`
	Call   string `json:"callID"`
	State  struct {
		Status string `json:"status"`
	} `json:"state"`
	Cost   *float64 `json:"cost"`
	Tokens struct {
		Input     number `json:"input"`
		Output    number `json:"output"`
		Reasoning number `json:"reasoning"`
		Cache     struct {
			Read  number `json:"read"`
			Write number `json:"write"`
		} `json:"cache"`
	} `json:"tokens"`
}

// usage returns what a step has used.
func (p *opencodePart) usage() Usage {
	t := &p.Tokens
	return Usage{tokens(t.Input), tokens(t.Cache.Read), tokens(t.Cache.Write),
		Add(tokens(t.Output), tokens(t.Reasoning)), dollars(p.Cost)}
}

// opencodeError is an error of opencode.
type opencodeError struct {
	Name string `json:"name"`
	Data struct {
		Message string            `json:"message"`
		Status  number            `json:"statusCode"`
		Headers map[string]string `json:"responseHeaders"`
		Body    string            `json:"responseBody"`
		Meta    struct {
			Code string `json:"code"`
		} `json:"metadata"`
	} `json:"data"`
}

// opencodeObject is an object of opencode run --format json.
type opencodeObject struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Part    struct {
		ID string `json:"id"`
		opencodePart
	} `json:"part"`
	Rejected []struct {
		ID string `json:"id"`
	} `json:"rejected"`
	Error opencodeError `json:"error"`
}

func opencodeOutput(object []byte, emit func(Event)) {
	var o opencodeObject
	if !decode(object, &o) {
		return
	}
	emit(Event{Kind: Session, Session: o.Session})
	p := &o.Part
	switch o.Type {
	case "step_start":
		emit(Event{Kind: Step})
	case "text":
		emit(Event{Kind: Message, Text: p.Text})
	case "tool_use":
		emit(Event{Kind: Tool, Tool: p.Tool, Call: p.Call, Done: true, OK: p.State.Status == "completed"})
	case "step_finish":
		if t := p.Tokens; some(t.Input, t.Output, t.Reasoning, t.Cache.Write) {
			emit(Event{Kind: Tokens, ID: p.ID, Usage: p.usage()})
		}
		switch p.Reason {
		case "tool-calls":
			emit(Event{Kind: Step})
		case "length", "content-filter":
			emit(Event{Kind: Failed, Failure: Failure{Code: p.Reason, Source: FromStream}})
			emit(Event{Kind: Result, Failed: true})
		default:
			emit(Event{Kind: Result})
		}
	case "error":
		f := o.Error.failure(FromStream)
		emit(Event{Kind: Failed, Failure: f})
		emit(Event{Kind: Result, Text: f.Text, Failed: true})
	case "done":
		for _, r := range o.Rejected {
			emit(Event{Kind: Permission, Call: r.ID})
		}
	case "reasoning":
	default:
		emit(Event{Kind: Unknown, Name: o.Type})
	}
}

// failure returns the failure of an error. The body of the server's answer names it most exactly.
func (e *opencodeError) failure(from Source) Failure {
	d := &e.Data
	f := Failure{Code: e.Name, Status: int(tokens(d.Status)), Text: d.Message, Source: from}
	if d.Meta.Code != "" && f.Status == 0 {
		f.Code = d.Meta.Code
	}
	if body := serverError(d.Body); body.Code != "" {
		f.Reset = body.Reset
		if e.Name == "APIError" {
			f.Code = body.Code
		}
	}
	if at, err := strconv.ParseInt(d.Headers["x-codex-primary-reset-at"], 10, 64); err == nil && f.Reset.IsZero() &&
		d.Headers["x-codex-primary-used-percent"] == "100" {
		f.Reset = time.Unix(at, 0)
	}
	return f
}

// serverError parses the body of an answer of a server of OpenAI's or Anthropic's kind: an error, or an
// object with one.
func serverError(body string) Failure {
	type failure struct {
		Type    string  `json:"type"`
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Resets  seconds `json:"resets_at"`
	}
	var o struct {
		failure
		Error failure `json:"error"`
	}
	if !decode([]byte(body), &o) {
		return Failure{}
	}
	e := o.Error
	if e == (failure{}) {
		e = o.failure
	}
	code := e.Code
	if code == "" {
		code = e.Type
	}
	return Failure{Code: code, Text: e.Message, Reset: e.Resets.Time}
}

func opencodeStderr(line string, emit func(Event)) {
	if text, ok := strings.CutPrefix(plaintext.Line(line), "Error: "); ok {
		emit(Event{Kind: Failed, Failure: Failure{Text: text, Source: FromStderr}})
	}
}
