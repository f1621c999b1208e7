package agentcli

import (
	"strings"
	"time"
)

// claudeObject is an object of claude: of its stream, or of the file of its session, whose names are in
// camel case.
type claudeObject struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	Session   string `json:"session_id"`
	FileID    string `json:"sessionId"`
	Timestamp stamp  `json:"timestamp"`
	Parent    string `json:"parent_tool_use_id"` // set in messages of subagents
	Side      bool   `json:"isSidechain"`

	// system
	Version     string  `json:"claude_code_version"`
	FileVersion string  `json:"version"`
	Model       string  `json:"model"`
	KeySource   *string `json:"apiKeySource"`
	Status      number  `json:"error_status"`
	Tool        string  `json:"tool_name"`
	Call        string  `json:"tool_use_id"`

	// assistant, user
	Message struct {
		ID      string `json:"id"`
		Model   string `json:"model"`
		Usage   counts `json:"usage"`
		Content []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			ID      string `json:"id"`
			Name    string `json:"name"`
			CallID  string `json:"tool_use_id"`
			IsError bool   `json:"is_error"`
		} `json:"content"`
	} `json:"message"`
	Error      string `json:"error"`
	APIError   string `json:"api_error"`
	APIStatus  number `json:"api_error_status"`
	FileStatus number `json:"apiErrorStatus"`
	FileAPI    string `json:"apiError"`
	Params     struct {
		Limit claudeLimit `json:"rate_limit_info"`
	} `json:"api_error_params"`

	// stream_event
	Event struct {
		Type    string `json:"type"`
		Usage   counts `json:"usage"`
		Message struct {
			ID    string `json:"id"`
			Model string `json:"model"`
			Usage counts `json:"usage"`
		} `json:"message"`
	} `json:"event"`
	MessageID string `json:"api_message_id"`

	// rate_limit_event
	Limit claudeLimit `json:"rate_limit_info"`

	// result
	IsError        bool        `json:"is_error"`
	Result         string      `json:"result"`
	Errors         []string    `json:"errors"`
	Turns          number      `json:"num_turns"`
	StopReason     string      `json:"stop_reason"`
	TerminalReason string      `json:"terminal_reason"`
	StartupFailure string      `json:"startup_failure_reason"`
	Usage          counts      `json:"usage"`
	ModelUsage     modelCounts `json:"modelUsage"` // by model, including subagents
	SinceLast      modelCounts `json:"model_usage_since_last_result"`
	Denials        []struct {
		Tool string `json:"tool_name"`
		Call string `json:"tool_use_id"`
	} `json:"permission_denials"`
}

// claudeLimit is the state of the limits of an account.
type claudeLimit struct {
	Status  string   `json:"status"`
	Resets  seconds  `json:"resetsAt"`
	Type    string   `json:"rateLimitType"`
	Used    *float64 `json:"utilization"`
	Windows map[string]struct {
		Used   *float64 `json:"utilization"`
		Resets seconds  `json:"resetsAt"`
		Status string   `json:"status"`
	} `json:"unifiedWindows"`
}

func (l claudeLimit) windows() (all []Window) {
	for name, w := range l.Windows {
		all = append(all, Window{name, share(w.Used), w.Resets.Time, w.Status == "rejected"})
	}
	// Without a name and a reset it is a short limit, which the failure of the call tells.
	named := l.Type != "" || !l.Resets.IsZero()
	if _, listed := l.Windows[l.Type]; !listed && l.Status != "" && named {
		all = append(all, Window{l.Type, share(l.Used), l.Resets.Time, l.Status == "rejected"})
	}
	return all
}

// share returns a share from 0 to 1, -1 if it is not known.
func share(v *float64) float64 {
	if v == nil || !(*v >= 0) {
		return -1
	}
	return min(1, *v)
}

// claudeOutput parses an object of the stream, or the only object of --output-format json.
func claudeOutput(object []byte, emit func(Event)) {
	var o claudeObject
	if !decode(object, &o) {
		return
	}
	switch o.Type {
	case "system":
		o.system(emit)
	case "assistant":
		o.assistant(emit, FromStream)
	case "user":
		o.user(emit)
	case "stream_event":
		o.partial(emit)
	case "rate_limit_event":
		emit(Event{Kind: Limit, Windows: o.Limit.windows()})
	case "result":
		o.result(emit)
	case "control_request", "control_response", "control_cancel_request", "tool_progress", "tool_use_summary",
		"auth_status", "keep_alive", "prompt_suggestion", "conversation_reset":
	default:
		emit(Event{Kind: Unknown, Name: o.Type})
	}
}

// claudeSession parses an object of the file of a session.
func claudeSession(object []byte, emit func(Event)) {
	var o claudeObject
	if !decode(object, &o) {
		return
	}
	if o.FileID != "" {
		emit(Event{Kind: Session, Time: o.Timestamp.Time, Session: o.FileID, Version: o.FileVersion})
	}
	switch o.Type {
	case "assistant":
		o.assistant(emit, FromSession)
	case "user":
		o.user(emit)
	}
}

func (o *claudeObject) system(emit func(Event)) {
	switch o.Subtype {
	case "init":
		account := UnknownAccount
		if o.KeySource != nil {
			account = APIKey
			if *o.KeySource == "none" {
				account = Subscription
			}
		}
		emit(Event{Kind: Session, Session: o.Session, Version: o.Version, Model: o.Model, Account: account})
		emit(Event{Kind: Turn})
	case "api_retry":
		emit(Event{Kind: Retry, Failure: Failure{Code: o.Error, Status: int(tokens(o.Status)), Source: FromStream}})
	case "permission_denied":
		emit(Event{Kind: Permission, Tool: o.Tool, Call: o.Call})
	case "model_refusal_no_fallback":
		emit(Event{Kind: Failed, Failure: Failure{Code: "refusal", Source: FromStream}})
	case "status", "compact_boundary", "session_state_changed", "informational", "task_started", "task_notification",
		"task_progress", "hook_started", "hook_progress", "hook_response", "session_writes_lost", "files_persisted",
		"elicitation_complete", "local_command_output", "model_changed":
	default:
		emit(Event{Kind: Unknown, Name: "system/" + o.Subtype})
	}
}

// assistant handles a message of the model, or one that claude has made up in its place.
func (o *claudeObject) assistant(emit func(Event), from Source) {
	side := o.Side || o.Parent != ""
	if o.Error != "" {
		text := ""
		if len(o.Message.Content) > 0 {
			text = o.Message.Content[0].Text
		}
		if from == FromSession {
			o.APIStatus, o.APIError = o.FileStatus, o.FileAPI
		}
		f := Failure{Code: o.Error, Status: int(tokens(o.APIStatus)), Text: text, Reset: o.Params.Limit.Resets.Time,
			Source: from}
		if o.APIError != "" {
			f.Code = o.APIError
		}
		emit(Event{Kind: Failed, Time: o.Timestamp.Time, Failure: f})
		return
	}
	if u, ok := o.Message.Usage.usage(); ok {
		emit(Event{Kind: Tokens, Time: o.Timestamp.Time, Model: o.Message.Model, ID: o.Message.ID, Usage: u})
	}
	for _, c := range o.Message.Content {
		switch {
		case c.Type == "text" && !side:
			emit(Event{Kind: Message, Time: o.Timestamp.Time, Text: c.Text})
		case c.Type == "tool_use":
			emit(Event{Kind: Tool, Time: o.Timestamp.Time, Tool: c.Name, Call: c.ID})
		}
	}
}

// user handles the results of tools.
func (o *claudeObject) user(emit func(Event)) {
	for _, c := range o.Message.Content {
		if c.Type == "tool_result" {
			emit(Event{Kind: Tool, Time: o.Timestamp.Time, Call: c.CallID, Done: true, OK: !c.IsError})
		}
	}
}

// partial handles an event of the API, with --include-partial-messages. Only there the output tokens of
// a message are exact before the end.
func (o *claudeObject) partial(emit func(Event)) {
	id, u, model := o.MessageID, o.Event.Usage, ""
	if o.Event.Type == "message_start" {
		id, u, model = o.Event.Message.ID, o.Event.Message.Usage, o.Event.Message.Model
	}
	if used, ok := u.usage(); ok && id != "" {
		emit(Event{Kind: Tokens, Model: model, ID: id, Usage: used})
	}
}

func (o *claudeObject) result(emit func(Event)) {
	emit(Event{Kind: Session, Session: o.Session})
	if all, ok := o.SinceLast.models(); ok {
		emit(Event{Kind: Tokens, Scope: OfPart, Models: all})
	} else if all, ok := o.ModelUsage.models(); ok {
		emit(Event{Kind: Tokens, Scope: OfSession, Models: all})
	} else if u, ok := o.Usage.usage(); ok {
		emit(Event{Kind: Tokens, Scope: OfRun, Models: Models{"": u}})
	}
	for _, d := range o.Denials {
		emit(Event{Kind: Permission, Tool: d.Tool, Call: d.Call})
	}
	failed := o.IsError || strings.HasPrefix(o.Subtype, "error") || o.TerminalReason == "prompt_too_long" ||
		o.StopReason == "refusal"
	text := o.Result
	if failed && text == "" {
		text = strings.Join(o.Errors, "; ")
	}
	if failed {
		// The reason tells more than the subtype, which may be success.
		for _, code := range []string{o.StartupFailure, o.StopReason, o.TerminalReason, o.APIError, o.Subtype} {
			if code != "" {
				emit(Event{Kind: Failed, Failure: Failure{Code: code, Status: int(tokens(o.APIStatus)), Text: text,
					Reset: o.Params.Limit.Resets.Time, Source: FromStream}})
			}
		}
	}
	if !failed {
		emit(Event{Kind: Turn}) // it has gone on after the failures of messages
	}
	emit(Event{Kind: Result, Text: text, Failed: failed, Turns: tokens(o.Turns)})
}

// claudeReset finds the time in a text such as "You've hit your 5-hour limit · resets 3:04am (UTC)".
func claudeReset(text string, now time.Time, _ *time.Location) time.Time {
	_, rest, ok := strings.Cut(text, " resets ")
	if !ok {
		return time.Time{}
	}
	clock, rest, ok := strings.Cut(rest, " (")
	zone, _, closed := strings.Cut(rest, ")")
	if !ok || !closed {
		return time.Time{}
	}
	where, err := time.LoadLocation(zone)
	if err != nil {
		return time.Time{}
	}
	return nextClock(clock, now, where)
}
