package agentcli

import (
	"strconv"
	"strings"
)

// geminiObject is an object of gemini --output-format stream-json, or the only one of json.
type geminiObject struct {
	Type      string `json:"type"`
	Timestamp stamp  `json:"timestamp"`
	Session   string `json:"session_id"`
	Model     string `json:"model"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	Delta     bool   `json:"delta"`
	Tool      string `json:"tool_name"`
	Call      string `json:"tool_id"`
	Status    string `json:"status"`
	Severity  string `json:"severity"`
	Message   string `json:"message"`
	Response  string `json:"response"`
	Stats     stats  `json:"stats"`
	Error     struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    number `json:"code"`
	} `json:"error"`
}

func geminiOutput(object []byte, emit func(Event)) {
	var o geminiObject
	if !decode(object, &o) {
		return
	}
	at := o.Timestamp.Time
	switch o.Type {
	case "init":
		emit(Event{Kind: Session, Time: at, Session: o.Session, Model: o.Model})
		emit(Event{Kind: Turn, Time: at})
	case "message":
		if o.Role == "assistant" {
			emit(Event{Kind: Message, Time: at, Text: o.Content, Delta: o.Delta})
		}
	case "tool_use":
		emit(Event{Kind: Tool, Time: at, Tool: o.Tool, Call: o.Call})
	case "tool_result":
		emit(Event{Kind: Tool, Time: at, Call: o.Call, Done: true, OK: o.Status == "success"})
		if o.Error.Type == "policy_violation" || o.Error.Type == "permission_denied" {
			emit(Event{Kind: Permission, Time: at, Call: o.Call})
		}
	case "error": // of the severity "error" it ends; "Loop detected" is a warning, and ends it, too
		kind := Retry
		if o.Severity != "warning" || strings.HasPrefix(o.Message, "Loop detected") {
			kind = Failed
		}
		emit(Event{Kind: kind, Time: at, Failure: Failure{Text: o.Message, Source: FromStream}})
	case "result", "":
		o.result(emit)
	default:
		emit(Event{Kind: Unknown, Name: o.Type})
	}
}

func (o *geminiObject) result(emit func(Event)) {
	if o.Session != "" {
		emit(Event{Kind: Session, Session: o.Session})
	}
	if all, ok := o.Stats.models(); ok {
		emit(Event{Kind: Tokens, Scope: OfRun, Models: all})
	}
	failed := o.Status == "error" || o.Error.Type != "" || o.Error.Message != ""
	text := o.Response
	if failed {
		f := geminiFailure(o.Error.Message)
		if f.Code == "" {
			f.Code = o.Error.Type
		}
		if n := int(tokens(o.Error.Code)); f.Status == 0 && n >= 100 {
			f.Status = n
		}
		f.Source = FromStream
		text = f.Text
		emit(Event{Kind: Failed, Failure: f})
	}
	emit(Event{Kind: Result, Text: text, Failed: failed})
}

// geminiFailure parses a message such as "[API Error: TEXT]".
func geminiFailure(message string) Failure {
	text, ok := strings.CutPrefix(message, "[API Error: ")
	if ok {
		if end := strings.LastIndex(text, "]"); end >= 0 {
			text = text[:end]
		}
	}
	return ServerFailure(text)
}

// ServerFailure parses a message that may be the JSON with which a server has answered.
func ServerFailure(text string) Failure {
	f := Failure{Text: text}
	var body struct {
		Error struct {
			Code    number `json:"code"`
			Message string `json:"message"`
			Status  string `json:"status"`
			Details []struct {
				Reason string `json:"reason"`
			} `json:"details"`
		} `json:"error"`
	}
	if strings.HasPrefix(text, "{") && decode([]byte(text), &body) && body.Error.Message != "" {
		f = Failure{Code: body.Error.Status, Status: int(tokens(body.Error.Code)), Text: body.Error.Message}
		for _, d := range body.Error.Details {
			if d.Reason != "" {
				f.Code = d.Reason
			}
		}
	}
	return f
}

// geminiSession parses a line of a file in chats/.
func geminiSession(object []byte, emit func(Event)) {
	var l struct {
		Session   string       `json:"sessionId"`
		ID        string       `json:"id"`
		Type      string       `json:"type"`
		Timestamp stamp        `json:"timestamp"`
		Model     string       `json:"model"`
		Tokens    geminiCounts `json:"tokens"`
	}
	if !decode(object, &l) {
		return
	}
	if l.Session != "" {
		emit(Event{Kind: Session, Session: l.Session})
	}
	if u, ok := l.Tokens.usage(); ok && l.Type == "gemini" {
		emit(Event{Kind: Tokens, Time: l.Timestamp.Time, Model: l.Model, ID: l.ID, Usage: u})
	}
}

// geminiStderr parses a line of standard error, where the only words on retries and the name of the error
// are.
func geminiStderr(line string, emit func(Event)) {
	if rest, ok := strings.CutPrefix(line, "Error when talking to Gemini API Full report available at: "); ok {
		if _, rest, ok = strings.Cut(rest, ".json "); ok {
			code, text, _ := strings.Cut(rest, ": ")
			f := geminiFailure(text)
			if f.Code == "" {
				f.Code = code
			}
			f.Source = FromStderr
			emit(Event{Kind: Failed, Failure: f})
		}
		return
	}
	if rest, ok := strings.CutPrefix(line, "Attempt "); ok {
		number, rest, ok := strings.Cut(rest, " failed")
		if _, err := strconv.Atoi(number); !ok || err != nil {
			return
		}
		f := Failure{Source: FromStderr}
		if status, ok := strings.CutPrefix(rest, " with status "); ok {
			digits, _, _ := strings.Cut(status, ".")
			f.Status, _ = strconv.Atoi(digits)
		}
		if _, text, ok := strings.Cut(rest, "backoff... "); ok {
			class, text, _ := strings.Cut(text, ": ")
			body := geminiFailure(text)
			f.Code, f.Text = body.Code, body.Text
			if f.Code == "" {
				f.Code = class
			}
		} else {
			f.Text = strings.TrimPrefix(rest, ": ")
		}
		emit(Event{Kind: Retry, Failure: f})
		return
	}
	if strings.HasPrefix(line, "Error resuming session: ") {
		emit(Event{Kind: Failed, Failure: Failure{Text: line, Source: FromStderr}})
	}
}

// geminiExit returns the status of HTTP that an exit code stands for: the status modulo 256.
func geminiExit(code int) Failure {
	f := Failure{Code: "exit code " + strconv.Itoa(code), Source: FromExit}
	for _, status := range []int{400, 401, 403, 404, 429, 500, 502, 503, 504} {
		if code == status%256 {
			f.Status = status
		}
	}
	return f
}
