package agentcli

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestDetect(t *testing.T) {
	for command, expected := range map[string]CLI{
		"claude -p --output-format stream-json":               Claude,
		"/usr/local/bin/codex exec --json -":                  Codex,
		"env -u HOME A=b gemini -p":                           Gemini,
		"npx -y @anthropic-ai/claude-code -p":                 Claude,
		"npx -p x @google/gemini-cli@latest":                  Gemini,
		"timeout -s KILL 30m opencode run":                    Opencode,
		"nice -n 5 env X=1 copilot":                           Copilot,
		"node /opt/node_modules/.bin/codex.js":                Codex,
		"nohup claude":                                        Claude,
		"/opt/bin/claude-agent-acp":                           ACP,
		"node /opt/claude-agent-acp.js":                       ACP,
		"npx -y @agentclientprotocol/claude-agent-acp@latest": ACP,
		"npx @zed-industries/codex-acp":                       ACP,
		"codex-acp -c x=y":                                    ACP,
		"env A=b gemini --model x --experimental-acp":         ACP,
		"npx @google/gemini-cli --acp":                        ACP,
		"opencode --print-logs acp":                           ACP,
		"copilot --acp --stdio":                               ACP,
		"gemini -p -- --acp":                                  Gemini,
		"opencode run acp":                                    Opencode,
		"claude --acp":                                        Claude,
		"acp":                                                 Plain,
		"env":                                                 Plain,
		"":                                                    Plain,
		"./work.sh claude":                                    Plain,
		"sh -c claude":                                        Plain,
		"claudette":                                           Plain,
		"env --":                                              Plain,
		"timeout":                                             Plain,
	} {
		if got := Detect(strings.Fields(command)); got != expected {
			t.Errorf("%q: %s, expected %s", command, got, expected)
		}
	}
}

// The vendor of an agent that speaks ACP has its account.
func TestVendor(t *testing.T) {
	for command, expected := range map[string]CLI{
		"claude -p": Claude, "npx -y @zed-industries/claude-code-acp@latest": Claude,
		"env A=b claude-agent-acp": Claude, "npx @zed-industries/codex-acp": Codex, "gemini --acp": Gemini,
		"opencode acp": Opencode, "copilot --acp": Copilot,
		"./agent.sh": Plain, "": Plain,
	} {
		if got := Vendor(strings.Fields(command)); got != expected {
			t.Errorf("%q: %s, expected %s", command, got, expected)
		}
	}
}

func TestParse(t *testing.T) {
	for _, cli := range Callable() {
		if got, err := Parse(string(cli), Callable()); got != cli || err != nil {
			t.Errorf("%s: %s, %v", cli, got, err)
		}
	}
	_, err := Parse("cluade", CLIs())
	if err == nil || !strings.HasSuffix(err.Error(), `did you mean "claude"?`) {
		t.Error(err)
	}
	if cli, err := Parse("acp", CLIs()); err == nil {
		t.Errorf("%s is not among the others", cli)
	}
}

// A clock that shows 3:04 may be seconds before 3:05.
func TestNextClock(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 1, 20, 0, time.UTC)
	for text, expected := range map[string]string{
		"3:04am": "2026-11-23 03:05", "3:04 AM": "2026-11-23 03:05", "1:00 AM": "2026-11-24 01:01", "1:01am": "2026-11-23 01:02",
		"9pm": "2026-11-23 21:01", "12:30 AM": "2026-11-24 00:31", "": "", "25:00 AM": "", "soon": "",
	} {
		got := ""
		if at := nextClock(text, now, time.UTC); !at.IsZero() {
			got = at.Format("2006-01-02 15:04")
		}
		if got != expected {
			t.Errorf("%q: %s, expected %s", text, got, expected)
		}
	}
}

func TestResetsInTexts(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 1, 0, 0, time.UTC)
	for text, expected := range map[string]string{
		"You've hit your usage limit. Try again at 3:39 AM.":            "2026-11-23T03:40:00Z",
		"purchase more credits or try again at Aug 20th, 2027 3:39 AM.": "2027-08-20T03:40:00Z",
		"try again at Feb 31st, 2027 3:39 AM.":                          "",
		"try again later":                                               "",
		"You've hit your session limit · resets 9pm (Asia/Bangkok)":     "2026-11-23T14:01:00Z",
		"You've hit your session limit · resets 9pm (Nowhere/Land)":     "",
		"You've hit your session limit · resets 9pm":                    "",
		"You've hit your session limit · resets soon (UTC)":             "",
	} {
		got := ""
		for _, find := range []func(string, time.Time, *time.Location) time.Time{codexReset, claudeReset} {
			if at := find(text, now, time.UTC); !at.IsZero() {
				got = at.UTC().Format(time.RFC3339)
			}
		}
		if got != expected {
			t.Errorf("%q: %q, expected %q", text, got, expected)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		version, than string
		older         bool
	}{
		{"2.1.197", "2.1.330", true}, {"2.1.330", "2.1.330", false}, {"2.1", "2.1.330", true}, {"3", "2.1.330", false},
		{"", "2.1.330", false}, {"2.x.1", "2.1.330", false}, {"10.0", "9.9", false},
	} {
		if got := older(c.version, c.than); got != c.older {
			t.Errorf("%s before %s: %v", c.version, c.than, got)
		}
	}
}

// The usual command of each command line is recognised as that.
func TestCommand(t *testing.T) {
	for _, cli := range Callable() {
		argv := Command(cli)
		if Detect(argv) != cli || (argv == nil) != (cli == Plain) {
			t.Errorf("%s: %q is %s", cli, argv, Detect(argv))
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for command, expected := range map[string]string{
		"claude -p x":                  "|claude|-p x",
		"/usr/bin/claude":              "|claude|",
		"env A=b nice -n 5 codex exec": "env A=b nice -n 5|codex|exec",
		"timeout -k 5 60 npx -y @anthropic-ai/claude-code -p": "timeout -k 5 60|claude|-p",
		"npx -p @openai/codex codex exec":                     "|codex|exec",
		"node --no-warnings /opt/gemini.js -p x":              "|gemini|-p x",
		"env npx":                                             "|plain|",
		"gemini --acp":                                        "|acp|--acp",
		"npx claude-agent-acp --x":                            "|acp|--x",
		"./work.sh claude":                                    "|plain|",
	} {
		before, cli, arguments := Split(strings.Fields(command))
		if got := fmt.Sprintf("%s|%s|%s", strings.Join(before, " "), cli, strings.Join(arguments, " ")); got != expected {
			t.Errorf("%s: %s, expected %s", command, got, expected)
		}
	}
	if _, cli, _ := Split(nil); cli != Plain {
		t.Error(cli)
	}
}

func TestModel(t *testing.T) {
	env := map[string]string{"ANTHROPIC_MODEL": "a", "GEMINI_MODEL": "g", "COPILOT_MODEL": "c", "OPENAI_MODEL": "o"}
	for _, tt := range []struct {
		cli      CLI
		command  string
		expected string
	}{
		{Claude, "claude -p", "a"},
		{Claude, "claude -p --model opus", "opus"},
		{Claude, "claude -p -m opus -- x", "opus"},
		{Claude, "claude -p --model=opus -m haiku", "opus"},
		{Claude, "claude -p -- --model opus", "a"},
		{Claude, "claude -p --model", "a"},
		{Claude, "nice -n 5 claude --model opus", "opus"},
		{Claude, "./run.sh --model opus", "opus"},
		{Claude, "python3 -m agent", "a"},
		{Codex, "codex exec --json -m gpt-5", "gpt-5"},
		{Codex, "codex exec --json -", ""},
		{Gemini, "gemini", "g"},
		{Copilot, "copilot", "c"},
		{Opencode, "opencode run -m openai/gpt-5", "openai/gpt-5"},
		{Opencode, "opencode run", ""},
		{Claude, "", "a"},
	} {
		if got := Model(tt.cli, strings.Fields(tt.command), env); got != tt.expected {
			t.Errorf("%s: %q, expected %q", tt.command, got, tt.expected)
		}
	}
}
