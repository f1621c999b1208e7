package fakeagent

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// acpVersion is the version of claude-agent-acp that is played.
const acpVersion = "0.49.0"

// acpAgent plays claude-agent-acp. It keeps the sessions of claude.
type acpAgent struct {
	*claude
	asked json.RawMessage // the ID of the prompt that it works on
}

// acpRequest is a request of a client of the Agent Client Protocol, or a notification without an ID.
type acpRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Session string `json:"sessionId"`
		Prompt  []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	} `json:"params"`
}

// mainACP plays claude-agent-acp until its input ends, and returns its exit code.
func mainACP(set Setting, in io.Reader, out io.Writer) int {
	p := &player{
		output: output{out: out, err: os.Stderr, now: time.Now}, request: request{format: asStream}, cli: agentcli.ACP,
		version: acpVersion, set: set, env: os.Getenv, spawn: func() error { return leave(agentcli.ACP, set) },
	}
	a := &acpAgent{claude: &claude{player: p}}
	p.speaks = a
	var err error
	if p.cwd, err = os.Getwd(); err != nil {
		p.say("fake " + Program(p.cli) + ": " + err.Error())
		return 1
	}
	return a.serve(requests(in))
}

// requests reads the requests of a client. Lines that are none are skipped.
func requests(in io.Reader) <-chan acpRequest {
	all := make(chan acpRequest)
	go func() {
		defer close(all)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxPrompt)
		for lines.Scan() {
			var q acpRequest
			if json.Unmarshal(lines.Bytes(), &q) == nil {
				all <- q
			}
		}
	}()
	return all
}

// serve answers requests until they end, and returns the exit code.
func (a *acpAgent) serve(all <-chan acpRequest) int {
	played := make(chan int, 1)
	for {
		select {
		case q, more := <-all:
			switch {
			case !more:
				if a.item.Scenario != Hang {
					return 0
				}
				all = nil // the process stays
			case q.Method == "session/prompt" && a.asked == nil:
				a.asked, a.prompt = q.ID, ""
				for _, part := range q.Params.Prompt {
					a.prompt += part.Text
				}
				if err := a.choose(); err != nil {
					a.refuse(q.ID, -32603, err.Error(), "")
					a.asked = nil
					continue
				}
				go func() { played <- a.play() }()
			case q.Method == "session/cancel" && a.asked != nil:
				a.mu.Lock() // nothing follows
				a.reply(a.asked, object{"stopReason": "cancelled"})
				return 0
			case q.ID != nil:
				a.locked(func() (int, bool) { a.respond(q); return 0, true })
			}
		case code := <-played:
			if a.asked = nil; code != 0 {
				return code
			}
		}
	}
}

// respond answers a request other than a prompt.
func (a *acpAgent) respond(q acpRequest) {
	switch q.Method {
	case "initialize":
		a.reply(q.ID, object{
			"protocolVersion": 1, "agentInfo": object{"name": Program(a.cli), "version": a.version},
			"agentCapabilities": object{"loadSession": true, "sessionCapabilities": object{"resume": object{}}},
		})
	case "session/new", "session/load", "session/resume":
		a.resume = q.Params.Session
		if _, ok := a.claude.open(); !ok {
			a.refuse(q.ID, -32002, "Resource not found", "")
			return
		}
		a.reply(q.ID, object{"sessionId": a.id})
	default:
		a.refuse(q.ID, -32601, "Method not found", "")
	}
}

// choose chooses what is played for a prompt.
func (a *acpAgent) choose() error {
	agent := os.Getenv(proc.EnvAgent)
	err := a.set.record(agent, a.cli, func(number uint64) Scenario {
		a.item = a.set.Plan.At(time.Since(a.set.Start), agent, number)
		return a.item.Scenario
	})
	a.pieces, a.calls = a.item.Scenario == Split, 0
	return cmp.Or(err, Has(a.cli, a.item.Scenario))
}

// send writes a message of the protocol.
func (a *acpAgent) send(v object) {
	v["jsonrpc"] = "2.0"
	a.output.line(a.out, v)
}

func (a *acpAgent) reply(id json.RawMessage, result object) {
	a.send(object{"id": id, "result": result})
}

// refuse answers with an error, and its kind as the adapter spells it.
func (a *acpAgent) refuse(id json.RawMessage, code int, text, kind string) {
	e := object{"code": code, "message": text}
	if kind != "" {
		e["data"] = object{"errorKind": kind}
	}
	a.send(object{"id": id, "error": e})
}

func (a *acpAgent) update(v object) {
	a.send(object{"method": "session/update", "params": object{"sessionId": a.id, "update": v}})
}

// open finds the session open: a request has opened it.
func (a *acpAgent) open() (int, bool) { return 0, a.id != "" }

func (a *acpAgent) tool(t toolCall) {
	a.update(object{"sessionUpdate": "tool_call", "toolCallId": t.id, "title": t.command, "kind": "execute",
		"status": "pending"})
	a.claude.tool(t)
	a.update(object{"sessionUpdate": "tool_call_update", "toolCallId": t.id, "status": "completed",
		"rawOutput": t.output})
}

func (a *acpAgent) answer(text string) {
	a.claude.answer(text)
	a.update(object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

// retry reports nothing: the adapter does not tell.
func (*acpAgent) retry(fault, int) {}

func (a *acpAgent) fail(f fault) int {
	says := a.fault(f)
	a.claude.fail(f)
	if f.scenario == Refused {
		a.end("refusal")
		return 0
	}
	a.refuse(a.asked, -32603, "Internal error: "+says.text, says.code)
	return 0
}

// lie is not played, see Scenarios.
func (a *acpAgent) lie(text string) int { return a.succeed(text) }

func (a *acpAgent) succeed(string) int {
	a.end("end_turn")
	return 0
}

// end answers the prompt, with what was used.
func (a *acpAgent) end(reason string) {
	n := a.calls
	a.reply(a.asked, object{"stopReason": reason, "usage": object{"inputTokens": n * freshInput,
		"outputTokens": n * outputCount, "cachedReadTokens": n * cacheRead, "cachedWriteTokens": n * cacheWrite,
		"totalTokens": n * (allInput + outputCount)}})
}
