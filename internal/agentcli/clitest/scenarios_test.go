package clitest

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/fakemodel"
	"github.com/coppice-dev/coppice/internal/outcome"
)

// A scenario is what the model and the supervisor do, and what becomes of the run.
type scenario struct {
	name    string
	answers string // of the model, if they are not called as the scenario
	is      outcome.ObstacleKind
	run     func(*testing.T, *check) agentcli.End // completed if nil
}

func scenarios() []scenario {
	return []scenario{
		{name: "normal", run: resumed},
		{name: "tool"},
		{name: "quota", is: outcome.UsageLimit},
		{name: "auth", is: outcome.Authentication},
		{name: "denied", answers: "normal", is: outcome.PermissionDenied, run: denied},
		{name: "subagent", answers: `call=task:{"description":"a","prompt":"b","subagent_type":"general"}`},
		{name: "stop-tool", answers: "normal", is: outcome.OtherObstacle, run: stoppedInTool},
		{name: "kill-tool", answers: "normal", is: outcome.Crash, run: killedInTool},
		{name: "stop-text", answers: "hangmid", is: outcome.OtherObstacle, run: stoppedInText},
		{name: "kill-text", answers: "hangmid", is: outcome.Crash, run: killedInText},
		{name: "hang", is: outcome.Timeout, run: silent},
		{name: "resume-killed", answers: "normal", run: resumedKilled},
		{name: "resume-unknown", answers: "normal", is: outcome.SessionLost, run: resumedUnknown},
		{name: "ratelimit", is: outcome.RateLimit},
		{name: "ratelimit-normal", answers: "ratelimit,normal"},
		{name: "tool-quota", answers: "tool,quota", is: outcome.UsageLimit},
		{name: "spend", is: outcome.Billing},
		{name: "context", is: outcome.ContextFull},
		{name: "e500", is: outcome.Overloaded},
		{name: "overloaded", is: outcome.Overloaded},
		{name: "errmid", is: outcome.Overloaded},
		{name: "cut", is: outcome.Network},
		{name: "badjson", is: outcome.Network},
		{name: "maxtokens", is: outcome.ModelLimitation},
		{name: "refusal", is: outcome.Refused},
	}
}

// possible reports whether a scenario exists for a command line.
func possible(k Kind, scenario string) bool {
	switch scenario {
	case "denied": // codex, gemini and opencode run every tool, as they are started here
		return k != Codex && k != Gemini && k != Opencode
	case "subagent": // those of the others have tests of their own
		return k == Opencode
	case "resume-killed": // copilot may not have saved its session when it is killed
		return k != Copilot
	}
	return true
}

// short reports whether a scenario is part of every run of the tests. opencode and copilot try again for more than a
// minute at a limit. What differs between the accounts of claude is what they say of limits.
func short(k Kind, scenario string) bool {
	switch scenario {
	case "normal", "tool", "stop-tool":
		return k != ClaudeOAuth && k != ACPOAuth
	case "quota":
		return k != Opencode && k != Copilot
	case "auth":
		return k == Opencode || k == Copilot
	case "denied":
		return k == ACP
	}
	return false
}

// minutes returns roughly how long a scenario takes, since a command line tries again.
func minutes(k Kind, scenario string) int {
	switch scenario {
	case "ratelimit", "e500", "overloaded", "cut", "errmid":
		if k != Codex && k != Copilot {
			return 4
		}
	case "auth":
		if k == Claude || k == ACP {
			return 4
		}
	case "quota", "tool-quota", "spend", "badjson":
		if k == Opencode || k == Copilot {
			return 2
		}
	}
	return 0
}

// endings returns the obstacles of command lines that end differently in a scenario.
func endings() map[string]outcome.ObstacleKind {
	return map[string]outcome.ObstacleKind{
		// They go on and complete their work.
		"claude/badjson": "", "claude-oauth/badjson": "", "acp/badjson": "", "acp-oauth/badjson": "", "codex/badjson": "",
		"claude/cut": "", "claude-oauth/cut": "", "acp/cut": "", "acp-oauth/cut": "",
		"claude/errmid": "", "claude-oauth/errmid": "", "acp/errmid": "", "acp-oauth/errmid": "",
		// Neither the output nor the file of the session has a word of it.
		"gemini/maxtokens": "", "gemini/refusal": "",
		// The adapter has one word for all limits of a key.
		"acp/quota": outcome.RateLimit, "acp/tool-quota": outcome.RateLimit,
	}
}

// uncounted are tokens that the server has served and a command line does not report.
type uncounted struct {
	tokens int64 // negative: it reports more
	broken bool  // it may report answers that broke off, with no more than the ledger has of them
	late   bool  // it may not have reported anything yet
	why    string
}

// differences returns what the ledger and the command lines count differently. The ledger has whole answers only. The
// beginning of an answer of Anthropic's API tells all of its input, and one token of output.
func differences() map[string]uncounted {
	u := fakemodel.AnswerUsage()
	beginning := int64(u.Input + u.Written + 1)
	answer := int64(u.Input + u.Written + u.Output)
	cut := uncounted{tokens: -beginning, why: "it reports the beginning of the answer"}
	steps := uncounted{tokens: answer, why: "it reports a step when the tools of the step have ended"}
	late := uncounted{late: true, why: "it writes the record of a call soon after it has started the tool"}
	all := map[string]uncounted{
		"claude/stop-text": cut, "claude/kill-text": cut, "claude-oauth/stop-text": cut, "claude-oauth/kill-text": cut,
		"copilot/stop-tool": late, "copilot/kill-tool": late,
		"opencode/stop-tool": steps, "opencode/kill-tool": steps,
		"codex/refusal": {tokens: 6 * answer, why: "its session has no record of an answer that a filter has stopped"},
	}
	for _, k := range []Kind{Claude, ClaudeOAuth} {
		all[string(k)+"/badjson"] = uncounted{tokens: 48, why: "it estimates the output of the answer that broke off"}
	}
	for _, k := range []Kind{ACP, ACPOAuth} {
		all[string(k)+"/badjson"] = uncounted{tokens: answer - beginning, why: cut.why}
		all[string(k)+"/errmid"] = cut
	}
	for _, k := range []Kind{Claude, ClaudeOAuth, ACP, ACPOAuth} {
		all[string(k)+"/cut"] = uncounted{broken: true, why: cut.why + ", if it has read that before the connection ended"}
	}
	for k, answers := range map[Kind]int64{Gemini: 1, Copilot: 6, Opencode: 6} {
		all[string(k)+"/badjson"] = uncounted{tokens: answers * answer, why: "it reports nothing of an answer that broke off"}
	}
	return all
}

// resetFrom returns where a command line says when a limit ends, empty if it does not.
func resetFrom(k Kind, scenario string) agentcli.Source {
	switch k {
	case ClaudeOAuth, Opencode, Copilot:
		return agentcli.FromStream
	case Codex:
		return agentcli.FromSession
	case ACPOAuth:
		if scenario == "quota" { // the adapter tells the state of the limits after the first answer
			return agentcli.FromMessage
		}
		return agentcli.FromStream
	}
	return ""
}

// The tables name what there is, and say something.
func TestTables(t *testing.T) {
	known := map[string]outcome.ObstacleKind{}
	for _, s := range scenarios() {
		for _, k := range Kinds() {
			if possible(k, s.name) {
				known[string(k)+"/"+s.name] = s.is
			}
		}
	}
	for name, is := range endings() {
		if regular, ok := known[name]; !ok || is == regular {
			t.Errorf("the ending of %s: there is no such run, or it is not different", name)
		}
	}
	for name, d := range differences() {
		if _, ok := known[name]; !ok || d.tokens == 0 && !d.broken && !d.late || d.why == "" {
			t.Errorf("the difference of %s: there is no such run, or it is no difference", name)
		}
	}
}
