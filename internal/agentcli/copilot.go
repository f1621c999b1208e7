package agentcli

import "strings"

// copilotObject is an object of copilot --output-format json, and of the file of its session.
type copilotObject struct {
	Type      string `json:"type"`
	Timestamp stamp  `json:"timestamp"`
	SessionID string `json:"sessionId"`
	Parent    string `json:"parentId"`
	ExitCode  number `json:"exitCode"`
	Data      struct {
		Session string `json:"sessionId"`
		Version string `json:"copilotVersion"`
		Model   string `json:"model"`
		Content string `json:"content"`
		Call    string `json:"toolCallId"`
		Tool    string `json:"toolName"`
		Success bool   `json:"success"`
		Result  struct {
			Kind string `json:"kind"`
		} `json:"result"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
		// session.error, model.call_failure
		ErrorType    string `json:"errorType"`
		ErrorCode    string `json:"errorCode"`
		ErrorMessage string `json:"errorMessage"`
		Message      string `json:"message"`
		Status       number `json:"statusCode"`
		FailureKind  string `json:"failureKind"`
		Reason       string `json:"reason"`
		// session.usage_record
		Usage struct {
			Model    string   `json:"model"`
			Input    number   `json:"inputTokens"` // includes what was read from a cache or written to it
			Output   number   `json:"outputTokens"`
			Read     number   `json:"cacheReadTokens"`
			Written  number   `json:"cacheWriteTokens"`
			ID       string   `json:"apiCallId"`
			Cost     *float64 `json:"cost"`
			Finish   string   `json:"finishReason"`
			Filtered bool     `json:"contentFilterTriggered"`
		} `json:"usage"`
	} `json:"data"`
}

func copilotOutput(object []byte, emit func(Event)) { copilot(object, FromStream, emit) }

func copilotSession(object []byte, emit func(Event)) { copilot(object, FromSession, emit) }

func copilot(object []byte, from Source, emit func(Event)) {
	var o copilotObject
	if !decode(object, &o) {
		return
	}
	d, at := &o.Data, o.Timestamp.Time
	if o.Parent != "" {
		emit(Event{Kind: Session, Time: at, Origin: o.Parent})
	}
	switch o.Type {
	case "session.start", "session.resume":
		emit(Event{Kind: Session, Time: at, Session: d.Session, Version: d.Version})
	case "user.message":
		emit(Event{Kind: Turn, Time: at})
	case "assistant.message":
		emit(Event{Kind: Message, Time: at, Text: d.Content, Model: d.Model})
	case "tool.execution_start":
		emit(Event{Kind: Tool, Time: at, Tool: d.Tool, Call: d.Call})
	case "tool.execution_complete":
		emit(Event{Kind: Tool, Time: at, Call: d.Call, Done: true, OK: d.Success})
		if d.Error.Code == "denied" || d.Result.Kind == "denied" || d.Result.Kind == "rejected" {
			emit(Event{Kind: Permission, Time: at, Call: d.Call})
		}
	case "session.usage_record":
		o.usage(emit)
	case "model.call_failure":
		f := serverError(d.ErrorMessage)
		f.Status, f.Source = int(tokens(d.Status)), from
		switch {
		case f.Code == "" && d.ErrorCode != "":
			f.Code = d.ErrorCode
		case f.Code == "" && d.ErrorType != "":
			f.Code = d.ErrorType
		case f.Code == "":
			f.Code, f.Text = d.FailureKind, strings.Trim(d.ErrorMessage, `"`)
		}
		emit(Event{Kind: Retry, Time: at, Failure: f})
	case "session.error":
		emit(Event{Kind: Failed, Time: at, Failure: Failure{Code: d.ErrorType, Status: int(tokens(d.Status)),
			Text: d.Message, Source: from}})
	case "abort":
		emit(Event{Kind: Failed, Time: at, Failure: Failure{Code: "abort", Text: d.Reason, Source: from}})
	case "result":
		emit(Event{Kind: Session, Session: o.SessionID})
		emit(Event{Kind: Result, Time: at, Failed: tokens(o.ExitCode) != 0})
	case "assistant.turn_start", "assistant.turn_end", "assistant.turn_retry", "assistant.idle",
		"assistant.message_start", "assistant.message_delta", "assistant.tool_call_delta", "assistant.reasoning",
		"assistant.reasoning_delta", "agent.interrupted", "model.call_start", "model.call_finished",
		"model.call_final_result", "session.skills_loaded", "session.mcp_servers_loaded", "session.tools_updated",
		"session.info", "session.background_tasks_changed", "session.shutdown", "system.message",
		"tool.execution_partial_result", "tool.shell_output":
	default:
		emit(Event{Kind: Unknown, Name: o.Type})
	}
}

// usage handles the record of a call of the model, which only the file of the session has.
func (o *copilotObject) usage(emit func(Event)) {
	u, at := &o.Data.Usage, o.Timestamp.Time
	if some(u.Input, u.Output) {
		in := max(0, tokens(u.Input)-tokens(u.Read)-tokens(u.Written))
		emit(Event{Kind: Tokens, Time: at, Model: u.Model, ID: u.ID, Usage: Usage{in, tokens(u.Read), tokens(u.Written),
			tokens(u.Output), 0}})
	}
	switch {
	case u.Filtered || u.Finish == "content_filter":
		emit(Event{Kind: Failed, Time: at, Failure: Failure{Code: "content_filter", Source: FromSession}})
	case u.Finish == "length":
		emit(Event{Kind: Failed, Time: at, Failure: Failure{Code: "length", Source: FromSession}})
	default:
		emit(Event{Kind: Turn, Time: at}) // it has gone on after a failure
	}
}

func copilotStderr(line string, emit func(Event)) {
	if text, ok := strings.CutPrefix(line, "Error: "); ok {
		emit(Event{Kind: Failed, Failure: Failure{Text: text, Source: FromStderr}})
	}
}
