package fakeagent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// gemini plays gemini.
type gemini struct {
	*player
	tools int
}

func (g *gemini) open() (int, bool) {
	chats := filepath.Join(g.home("", ".gemini"), "tmp", filepath.Base(g.cwd), "chats")
	file := ""
	if g.latest && g.resume == "" {
		if file = newestMatch(filepath.Join(chats, "session-*.jsonl")); file == "" {
			g.resume = "latest"
		}
	}
	if g.resume != "" && isID(g.resume) {
		file = firstMatch(filepath.Join(chats, "session-*-"+g.resume[:min(8, len(g.resume))]+".jsonl"))
	}
	switch {
	case file != "":
		g.id = cmp.Or(g.resume, sessionIn(file))
		return g.append(file)
	case g.resume != "":
		g.say(fmt.Sprintf("Error resuming session: Invalid session identifier %q.\n  Searched for sessions in %s.\n  "+
			"Use --list-sessions to see available sessions, then use --resume {number}, --resume {uuid}, or --resume "+
			"latest.", g.resume, chats))
		return 42, false
	}
	g.id = cmp.Or(g.newID, uuid())
	if !isID(g.id) {
		g.say("Error: invalid session id")
		return 42, false
	}
	return g.append(filepath.Join(chats, "session-"+g.now().UTC().Format("2006-01-02T15-04")+"-"+
		g.id[:min(8, len(g.id))]+".jsonl"))
}

func (g *gemini) begin() {
	g.model = cmp.Or(g.model, "gemini-2.5-pro")
	g.keep(object{"sessionId": g.id, "startTime": g.stamp(), "kind": "main"})
	g.keep(object{"id": uuid(), "timestamp": g.stamp(), "type": "user", "content": g.prompt})
	g.emit(object{"type": "init", "timestamp": g.stamp(), "session_id": g.id, "model": g.model})
	g.emit(object{"type": "message", "timestamp": g.stamp(), "role": "user", "content": g.prompt})
}

// message records a message of the model. Thoughts are only in the total.
func (g *gemini) message(content string) {
	g.calls++
	g.keep(object{"id": uuid(), "timestamp": g.stamp(), "type": "gemini", "content": content, "model": g.model,
		"tokens": object{"input": allInput, "output": outputCount - reasoning, "cached": cacheRead,
			"thoughts": reasoning, "tool": 0, "total": allInput + outputCount}})
}

func (g *gemini) tool(t toolCall) { g.callTool(t, true) }

func (g *gemini) callTool(t toolCall, ok bool) {
	g.message("")
	g.tools++
	name := "run_shell_command"
	g.emit(object{"type": "tool_use", "timestamp": g.stamp(), "tool_name": name, "tool_id": name + "__" + t.id,
		"parameters": object{"command": t.command}})
	if ok {
		g.emit(object{"type": "tool_result", "timestamp": g.stamp(), "tool_id": name + "__" + t.id, "status": "success",
			"output": t.output})
	}
}

func (g *gemini) answer(text string) {
	g.message(text)
	for _, word := range strings.SplitAfter(text, " ") {
		g.emit(object{"type": "message", "timestamp": g.stamp(), "role": "assistant", "content": word, "delta": true})
	}
}

func (g *gemini) stats() object {
	n := g.calls
	counts := func() object {
		return object{"total_tokens": n * (allInput + outputCount), "input_tokens": n * allInput,
			"output_tokens": n * (outputCount - reasoning), "cached": n * cacheRead,
			"input": n * (allInput - cacheRead)}
	}
	all := counts()
	all["tool_calls"], all["models"] = g.tools, object{g.model: counts()}
	return all
}

// geminiFault is a failure as gemini reports it.
type geminiFault struct {
	class  string // of the error
	text   string // as standard error has it: the body of the server's answer, or what gemini says in its place
	status int    // of HTTP
}

func (g *gemini) fault(f fault) geminiFault {
	body := func(code int, message, status, reason string) string {
		e := object{"code": code, "message": message, "status": status}
		if reason != "" {
			e["details"] = []any{object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
				"domain": "googleapis.com"}}
		}
		text, _ := json.Marshal(object{"error": e})
		return string(text)
	}
	switch f.scenario {
	case Quota, QuotaNoReset:
		return geminiFault{"TerminalQuotaError", "You have exhausted your daily quota on this model.", 429}
	case Auth:
		return geminiFault{"_ApiError", body(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT",
			"API_KEY_INVALID"), 400}
	case Money:
		return geminiFault{"_ApiError", body(403, "This API method requires billing to be enabled. Please enable "+
			"billing on project #fake.", "PERMISSION_DENIED", "BILLING_DISABLED"), 403}
	case Context:
		return geminiFault{
			"_ApiError",
			body(400, "The input token count (1200000) exceeds the maximum number of tokens "+
				"allowed (1048576).", "INVALID_ARGUMENT", ""),
			400,
		}
	}
	return geminiFault{"RetryableQuotaError", "The model is overloaded. Please try again later.", 503}
}

func (g *gemini) retry(f fault, attempt int) {
	if f.scenario == Overloaded {
		g.say(fmt.Sprintf("Attempt %d failed with status 503. Retrying with backoff... _ApiError: "+
			`{"error":{"code":503,"message":"The model is overloaded. Please try again later."`+
			`,"status":"UNAVAILABLE"}}`,
			attempt))
		return
	}
	g.say(
		fmt.Sprintf("Attempt %d failed: You exceeded your current quota, please check your plan and billing details. "+
			"For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n"+
			"Please retry in 2s.\nSuggested retry after 2s.. Retrying after 5171ms...", attempt),
	)
}

// fail ends with the status of HTTP modulo 256.
func (g *gemini) fail(f fault) int {
	says := g.fault(f)
	g.say("Error when talking to Gemini API Full report available at: /tmp/gemini-client-error-Turn.run-" +
		"sendMessageStream-" + g.now().UTC().Format("2006-01-02T15-04-05-000Z") + ".json " + says.class + ": " +
		"" + says.text)
	message := "[API Error: " + says.text + "]"
	if says.status == 429 {
		message += "\nPlease wait and try again later. To increase your limits, request a quota increase through AI " +
			"Studio, or switch to another /auth method"
	}
	g.emit(object{"type": "result", "timestamp": g.stamp(), "status": "error",
		"error": object{"type": "unknown", "message": message}, "stats": g.stats()})
	if g.format == asObject {
		text, _ := json.MarshalIndent(object{"session_id": g.id,
			"error": object{"type": "Error", "message": says.text, "code": says.status}}, "", "  ")
		g.say(string(text))
	}
	return says.status % 256
}

func (g *gemini) succeed(text string) int {
	switch g.format {
	case asText:
		g.print(text)
	case asObject:
		n := g.calls
		text, _ := json.MarshalIndent(object{"session_id": g.id, "response": text, "stats": object{"models": object{
			g.model: object{"tokens": object{"prompt": n * allInput, "candidates": n * (outputCount - reasoning),
				"total": n * (allInput + outputCount), "cached": n * cacheRead, "thoughts": n * reasoning,
				"tool": 0}}}}},
			"", "  ")
		g.print(string(text))
	default:
		g.emit(object{"type": "result", "timestamp": g.stamp(), "status": "success", "stats": g.stats()})
	}
	return 0
}

// lie claims a success after gemini has stopped a loop: only a warning says so.
func (g *gemini) lie(text string) int {
	const warning = "Loop detected, stopping execution"
	g.message(text)
	if g.format == asStream {
		g.emit(object{"type": "error", "timestamp": g.stamp(), "severity": "warning", "message": warning})
	} else {
		g.say("Warning: " + warning)
	}
	return g.succeed(text)
}
