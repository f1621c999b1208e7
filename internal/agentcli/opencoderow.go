package agentcli

import (
	"encoding/json"
	"time"
)

// OpencodeRow is a row of the database in which opencode keeps its sessions. A Stream with FromSession reads a row as
// a JSON object in a line.
type OpencodeRow struct {
	Session string `json:"session"`
	Version string `json:"version,omitempty"` // of opencode
	// Created is the time of the message, in milliseconds since 1970. A session that is forked has copies of
	// messages with their times, while all else of the copies is new.
	Created int64  `json:"created"`
	Model   string `json:"model,omitempty"` // that of the message
	Part    string `json:"part,omitempty"`  // ID; empty if the row is a message
	// Data is the message or part. It is null if it was too large or no JSON.
	Data json.RawMessage `json:"data"`
}

// Line returns the row as a line.
func (r OpencodeRow) Line() ([]byte, error) {
	line, err := json.Marshal(r)
	return append(line, '\n'), err
}

// OpencodeStep is the type of parts with the tokens of a step. It names an Unknown event of a step whose tokens cannot
// be read: then it is not known what the session has used.
const OpencodeStep = "step-finish"

func opencodeSession(object []byte, emit func(Event)) {
	var r OpencodeRow
	if !decode(object, &r) {
		return
	}
	at := time.UnixMilli(r.Created)
	stamped := func(e Event) {
		e.Time = at
		emit(e)
	}
	if r.Part == "" {
		r.message(stamped)
	} else {
		r.part(stamped)
	}
}

func (r *OpencodeRow) message(emit func(Event)) {
	var m struct {
		Role  string        `json:"role"`
		Error opencodeError `json:"error"`
	}
	decode(r.Data, &m)
	switch m.Role {
	case "user":
		emit(Event{Kind: Session, Session: r.Session, Version: r.Version})
		emit(Event{Kind: Turn})
	case "assistant":
		if m.Error.Name != "" {
			emit(Event{Kind: Failed, Failure: m.Error.failure(FromSession)})
		}
	default:
		emit(Event{Kind: Unknown, Name: "message " + m.Role})
	}
}

func (r *OpencodeRow) part(emit func(Event)) {
	var p struct {
		Type string `json:"type"`
		opencodePart
	}
	decode(r.Data, &p)
	switch p.Type {
	case "text":
		emit(Event{Kind: Message, Text: p.Text, Model: r.Model})
	case "tool":
		status := p.State.Status
		emit(Event{Kind: Tool, Tool: p.Tool, Call: p.Call, Done: status == "completed" || status == "error",
			OK: status == "completed"})
	case OpencodeStep:
		if t := &p.Tokens; !some(t.Input) || !some(t.Output) {
			emit(Event{Kind: Unknown, Name: OpencodeStep})
			return
		}
		emit(Event{Kind: Tokens, ID: r.Part, Model: r.Model, Usage: p.usage()})
		if p.Reason == "length" || p.Reason == "content-filter" {
			emit(Event{Kind: Failed, Failure: Failure{Code: p.Reason, Source: FromSession}})
		}
	case "step-start", "reasoning", "snapshot", "patch", "file", "agent", "subtask", "compaction", "retry":
	default:
		emit(Event{Kind: Unknown, Name: "part " + p.Type})
	}
}
