package fakeagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Scenario names what a call of a fake plays.
type Scenario string

const (
	OK           Scenario = "ok"
	Tool         Scenario = "tool"
	Quota        Scenario = "quota"
	QuotaNoReset Scenario = "quota-no-reset"
	UsedUp       Scenario = "used-up"
	Rate         Scenario = "rate"
	Auth         Scenario = "auth"
	Money        Scenario = "money"
	Context      Scenario = "context"
	Overloaded   Scenario = "overloaded"
	Refused      Scenario = "refused"
	Hang         Scenario = "hang"
	Silent       Scenario = "silent"
	Split        Scenario = "split"
	Orphan       Scenario = "orphan"
	Liar         Scenario = "liar"
	Crash        Scenario = "crash"
	Loop         Scenario = "loop"
	Commit       Scenario = "commit"
	Unusable     Scenario = "unusable"
	Wide         Scenario = "wide"
	Block        Scenario = "block"
)

// Info describes a scenario.
type Info struct {
	Scenario
	Shows string
	CLIs  []agentcli.CLI // those that can show it
}

// CLIs returns the command lines that have a fake.
func CLIs() []agentcli.CLI { return append(headless(), agentcli.ACP) }

// headless returns those that are called with a prompt.
func headless() []agentcli.CLI {
	return []agentcli.CLI{agentcli.Claude, agentcli.Codex, agentcli.Gemini, agentcli.Opencode, agentcli.Copilot}
}

// Program returns the program of a command line. The fake of an agent that speaks the Agent Client Protocol plays the
// adapter for claude.
func Program(cli agentcli.CLI) string {
	if cli == agentcli.ACP {
		return "claude-agent-acp"
	}
	return string(cli)
}

// Scenarios returns all scenarios. A command line lacks those that it has never shown when it was measured, and
// those that it shows in a way that nothing can tell from a success.
func Scenarios() []Info {
	all := CLIs()
	without := func(others ...agentcli.CLI) []agentcli.CLI {
		return slices.DeleteFunc(CLIs(), func(c agentcli.CLI) bool { return slices.Contains(others, c) })
	}
	return []Info{
		{OK, "answers, and ends with 0", all},
		{Tool, "calls a tool, answers, and ends with 0", all},
		{Quota, "the plan is used up until a reset; gemini does not tell when that is", all},
		{
			QuotaNoReset,
			"the quota is used up, and no reset is reported",
			[]agentcli.CLI{agentcli.Claude, agentcli.Gemini},
		},
		{UsedUp, "as quota, and it says so when it is asked before a run", []agentcli.CLI{agentcli.Claude}},
		{Rate, "a call has to wait for a moment, and is repeated with success", all},
		{Auth, "the key or login is not accepted", all},
		{Money, "no money or credits are left", all},
		{Context, "the conversation no longer fits into the model", all},
		{Overloaded, "the server of the model has no capacity", all},
		{Refused, "the model or its safety filter declines", without(agentcli.Gemini)},
		{Hang, "the result has come, and the process stays", all},
		{Silent, "nothing comes after the start", all},
		{Split, "lines arrive in pieces, and one has a megabyte; ends well", all},
		{Orphan, "ends well, and leaves a process in a session of its own", all},
		{Liar, "reports success and ends with 0, and the work is not done", without(agentcli.Codex, agentcli.ACP)},
		{Crash, "ends in the middle, with 1 and without a result", all},
		{Loop, "calls tools without end, and uses tokens for each", all},
		{Commit, "makes an empty commit if it runs in a linked git worktree, answers, and ends with 0", all},
		{Unusable, "as ok, and in a stage of a pipeline its answer fits no schema", all},
		{Wide, "as ok, and in a pipeline it changes three files, which maintenance mode refuses", all},
		{Block, "as ok, and as the security review of a pipeline it blocks the change", all},
	}
}

// Has reports whether a command line can show a scenario. The error lists those that it has.
func Has(cli agentcli.CLI, s Scenario) error {
	var names []string
	for _, i := range Scenarios() {
		if !slices.Contains(i.CLIs, cli) {
			continue
		}
		if i.Scenario == s {
			return nil
		}
		names = append(names, string(i.Scenario))
	}
	return fmt.Errorf("%s has no scenario %q; it has %s", cli, s, strings.Join(names, ", "))
}

// parseScenario parses the name of a scenario.
func parseScenario(name string) (Scenario, error) {
	var names []string
	for _, i := range Scenarios() {
		if string(i.Scenario) == name {
			return i.Scenario, nil
		}
		names = append(names, string(i.Scenario))
	}
	if near := suggest.Nearest(name, names); near != "" {
		return "", fmt.Errorf("unknown scenario %.40q; did you mean %q?", name, near)
	}
	return "", fmt.Errorf("unknown scenario %.40q, expected one of %s", name, strings.Join(names, ", "))
}
