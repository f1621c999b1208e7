package agentcli

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// codexObject is an object of codex exec --json.
type codexObject struct {
	Type    string `json:"type"`
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	Usage   counts `json:"usage"`
	Item    struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Text    string `json:"text"`
		Command string `json:"command"`
		Tool    string `json:"tool"`
		Status  string `json:"status"`
	} `json:"item"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

func codexOutput(object []byte, emit func(Event)) {
	var o codexObject
	if !decode(object, &o) {
		return
	}
	switch o.Type {
	case "thread.started":
		emit(Event{Kind: Session, Session: o.Thread})
	case "turn.started":
		emit(Event{Kind: Turn})
	case "turn.completed":
		if u, ok := o.Usage.usage(); ok {
			emit(Event{Kind: Tokens, Scope: OfSession, Models: Models{"": u}})
		}
		emit(Event{Kind: Result})
	case "turn.failed":
		if u, ok := o.Usage.usage(); ok {
			emit(Event{Kind: Tokens, Scope: OfSession, Models: Models{"": u}})
		}
		emit(Event{Kind: Failed, Failure: Failure{Text: o.Error.Message, Source: FromStream}})
		emit(Event{Kind: Result, Text: o.Error.Message, Failed: true})
	case "error": // turn.failed follows if it is final
		emit(Event{Kind: Retry, Failure: Failure{Text: codexRetry(o.Message), Source: FromStream}})
	case "item.completed", "item.started", "item.updated":
		o.item(emit)
	default:
		emit(Event{Kind: Unknown, Name: o.Type})
	}
}

func (o *codexObject) item(emit func(Event)) {
	done := o.Type == "item.completed"
	name := o.Item.Tool
	switch o.Item.Type {
	case "agent_message":
		if done {
			emit(Event{Kind: Message, Text: o.Item.Text})
		}
		return
	case "reasoning", "todo_list", "error": // an error is a warning, such as that of an unknown model
		return
	case "command_execution", "file_change", "web_search":
		name = o.Item.Type
	case "mcp_tool_call", "collab_tool_call":
	default:
		emit(Event{Kind: Unknown, Name: o.Type + "/" + o.Item.Type})
		return
	}
	emit(Event{Kind: Tool, Tool: name, Call: o.Item.ID, Done: done, OK: done && o.Item.Status == "completed"})
	if o.Item.Status == "declined" {
		emit(Event{Kind: Permission, Tool: name, Call: o.Item.ID})
	}
}

// codexRetry returns the failure in a message such as "Reconnecting... 1/5 (stream disconnected)".
func codexRetry(message string) string {
	if rest, ok := strings.CutPrefix(message, "Reconnecting... "); ok {
		if _, inner, ok := strings.Cut(rest, " ("); ok {
			return strings.TrimSuffix(inner, ")")
		}
	}
	return message
}

// codexLine is a line of the file that codex keeps of a session, which it calls a rollout.
type codexLine struct {
	Type      string `json:"type"`
	Timestamp stamp  `json:"timestamp"`
	Payload   struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Root    string `json:"session_id"` // differs from ID in the file of a subagent
		Version string `json:"cli_version"`
		Model   string `json:"model"`
		// token_usage_record: one call of the model
		Response string `json:"response_id"`
		Usage    counts `json:"usage"`
		// token_count
		Limits *struct {
			Primary   codexWindow `json:"primary"`
			Secondary codexWindow `json:"secondary"`
		} `json:"rate_limits"`
		// task_complete
		Last  string `json:"last_agent_message"`
		Error *struct {
			Message string          `json:"message"`
			Info    json.RawMessage `json:"codex_error_info"`
		} `json:"error"`
	} `json:"payload"`
}

type codexWindow struct {
	Used    *float64 `json:"used_percent"`
	Minutes number   `json:"window_minutes"`
	Resets  seconds  `json:"resets_at"`
}

func codexSession(object []byte, emit func(Event)) {
	var l codexLine
	if !decode(object, &l) {
		return
	}
	p, at := &l.Payload, l.Timestamp.Time
	switch l.Type {
	case "session_meta":
		emit(Event{Kind: Session, Time: at, Session: cmp.Or(p.Root, p.ID), Version: p.Version})
	case "turn_context":
		emit(Event{Kind: Session, Time: at, Model: p.Model})
	case "token_usage_record":
		if u, ok := p.Usage.usage(); ok {
			emit(Event{Kind: Tokens, Time: at, ID: p.Response, Usage: u})
		}
	case "event_msg":
		switch p.Type {
		case "task_started":
			emit(Event{Kind: Turn, Time: at})
		case "token_count":
			if p.Limits != nil {
				var all []Window
				all = p.Limits.Primary.append(all, "primary")
				all = p.Limits.Secondary.append(all, "secondary")
				emit(Event{Kind: Limit, Time: at, Windows: all})
			}
		case "task_complete":
			if p.Error != nil {
				code, status := codexError(p.Error.Info)
				emit(Event{Kind: Failed, Time: at, Failure: Failure{Code: code, Status: status, Text: p.Error.Message,
					Source: FromSession}})
			}
			emit(Event{Kind: Result, Time: at, Text: p.Last, Failed: p.Error != nil})
		}
	}
}

func (w codexWindow) append(all []Window, name string) []Window {
	if w.Used == nil {
		return all
	}
	used := *w.Used / 100
	return append(all, Window{name, share(&used), w.Resets.Time, used >= 1})
}

// codexError returns the name and the status of an error, which is a name or an object with the name as
// its only field.
func codexError(info json.RawMessage) (code string, status int) {
	if json.Unmarshal(info, &code) == nil {
		return code, 0
	}
	var named map[string]struct {
		Status number `json:"http_status_code"`
	}
	if decode(info, &named) {
		for name, e := range named {
			code, status = name, int(tokens(e.Status))
		}
	}
	return code, status
}

func codexStderr(line string, emit func(Event)) {
	if text, ok := strings.CutPrefix(line, "Error: "); ok {
		emit(Event{Kind: Failed, Failure: Failure{Text: text, Source: FromStderr}})
	}
}

// codexTime finds the local time at the end of a text such as "try again at 3:01 AM." or "try again at
// Aug 20th, 2026 3:39 AM."
var codexTime = lazyregexp.New(`[Tt]ry again at (?:([A-Z][a-z]{2}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) )?(\d{1,2}:\d{2} [AP]M)\.?$`)

func codexReset(text string, now time.Time, local *time.Location) time.Time {
	m := codexTime().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return time.Time{}
	}
	if m[1] == "" {
		return nextClock(m[4], now, local)
	}
	t, err := time.ParseInLocation("Jan 2 2006 3:04 PM", strings.Join(m[1:], " "), local)
	if err != nil {
		return time.Time{}
	}
	return t.Add(minute)
}
