package fakeagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// format is how a call writes to its standard output.
type format uint8

const (
	asText   format = iota
	asObject        // one object at the end
	asStream        // an object in each line
)

// request is what the arguments of a call ask for.
type request struct {
	format  format
	words   []string // without an option: the prompt
	stdin   bool     // the prompt is on standard input
	model   string
	resume  string // the session to continue
	latest  bool   // continue the latest session
	newID   string // of the new session
	verbose bool
	partial bool // report messages while they come
	control bool // requests are on standard input, instead of a prompt
	headless,
	askVersion, askHelp bool
	command string // a command other than to work on a prompt, such as mcp or login
}

// options describes the options of a command line that take a value, all other options do not.
type options struct {
	value    string // one value
	variadic string // all words up to the next option
	commands string // words in front that do something else than to work on a prompt
}

func optionsOf(cli agentcli.CLI) options {
	switch cli {
	case agentcli.Claude:
		return options{
			value: "--output-format --model --resume -r --permission-mode --session-id --append-system-prompt " +
				"--system-prompt --max-turns --max-budget-usd --fallback-model --settings --setting-sources --agents " +
				"--agent --json-schema --input-format --permission-prompt-tool --name -n --effort --debug-file",
			variadic: "--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --add-dir " +
				"--mcp-config --betas --plugin-dir",
			commands: "mcp config doctor update upgrade login logout install auth plugin setup-token agents",
		}
	case agentcli.Codex:
		return options{
			value: "-m --model -c --config -s --sandbox -C --cd -p --profile -o --output-last-message " +
				"--output-schema " +
				"--add-dir --color -a --ask-for-approval --enable --disable --local-provider",
			variadic: "-i --image",
			commands: "login logout mcp mcp-server app-server apply completion features sandbox debug cloud update",
		}
	case agentcli.Gemini:
		return options{
			value: "-m --model -o --output-format -r --resume --approval-mode -p --prompt -i --prompt-interactive " +
				"--session-id --policy --delete-session",
			variadic: "--allowed-tools --allowed-mcp-server-names -e --extensions --include-directories",
			commands: "mcp extensions extension skills skill hooks hook",
		}
	case agentcli.Opencode:
		return options{
			value: "-m --model -s --session --format --agent --title --attach --port --dir --command --variant " +
				"--log-level -f --file",
			commands: "auth agent models upgrade serve web stats export import github mcp session uninstall debug",
		}
	case agentcli.Copilot:
		return options{
			value: "--model -p --prompt --output-format --resume --agent --log-dir --log-level --add-dir " +
				"--additional-mcp-config --allow-tool --deny-tool --config-dir --stream --effort --name -n",
			commands: "mcp login logout update version plugin help",
		}
	}
	return options{}
}

// parse parses the arguments of a command line. Unknown options are ignored.
func parse(cli agentcli.CLI, args []string) (q request, err error) {
	o := optionsOf(cli)
	q.headless = cli == agentcli.Gemini || cli == agentcli.Copilot // also without a terminal
	if cli == agentcli.Codex && len(args) > 0 && (args[0] == "exec" || args[0] == "e") ||
		cli == agentcli.Opencode && len(args) > 0 && args[0] == "run" {
		q.headless, args = true, args[1:]
		if cli == agentcli.Codex && len(args) > 0 && args[0] == "resume" {
			q.resume, args = "?", args[1:]
		}
	} else if len(args) > 0 && slices.Contains(strings.Fields(o.commands), args[0]) {
		q.command = args[0]
		return q, nil
	}
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			q.words = append(q.words, args[i+1:]...)
			break
		}
		if word == "-" || !strings.HasPrefix(word, "-") {
			q.words = append(q.words, word)
			continue
		}
		name, value, given := strings.Cut(word, "=")
		isOption := func(at int) bool { return at >= len(args) || strings.HasPrefix(args[at], "-") && args[at] != "-" }
		switch {
		case given:
		case slices.Contains(strings.Fields(o.variadic), name):
			for !isOption(i + 1) {
				i++
			}
		case optional(cli, name):
			if !isOption(i + 1) {
				i++
				value = args[i]
			}
		case slices.Contains(strings.Fields(o.value), name):
			if i+1 >= len(args) {
				return q, fmt.Errorf("option %s needs a value", name)
			}
			i++
			value = args[i]
		}
		if err := q.set(cli, name, value); err != nil {
			return q, err
		}
	}
	if q.resume == "?" { // codex exec resume ID
		q.resume = ""
		if !q.latest && len(q.words) > 0 {
			q.resume, q.words = q.words[0], q.words[1:]
		}
	}
	if slices.Equal(q.words, []string{"-"}) {
		q.words = nil
	}
	q.stdin = len(q.words) == 0 || cli == agentcli.Codex
	return q, nil
}

// optional reports whether the value of an option may be missing.
func optional(cli agentcli.CLI, name string) bool {
	switch cli {
	case agentcli.Claude:
		return name == "--resume" || name == "-r"
	case agentcli.Gemini, agentcli.Copilot:
		return name == "--resume" || name == "-r"
	}
	return false
}

// set applies an option.
func (q *request) set(cli agentcli.CLI, name, value string) error {
	switch name {
	case "--version", "-v", "-V":
		q.askVersion = name == "--version" || (cli == agentcli.Codex) == (name == "-V")
	case "--help", "-h":
		q.askHelp = true
	case "--model", "-m":
		q.model = value
	case "--resume", "-r":
		if cli == agentcli.Opencode {
			return nil
		}
		if q.resume = value; value == "" || value == "latest" {
			q.resume, q.latest = "", true
		}
	case "--session", "-s":
		if cli == agentcli.Opencode {
			q.resume = value
		}
	case "--session-id":
		q.newID = value
	case "--continue", "-c", "--last":
		q.latest = q.latest || name != "-c" || cli != agentcli.Codex // whose -c is a setting
	case "--input-format":
		q.control = cli == agentcli.Claude && value == "stream-json"
	case "--verbose":
		q.verbose = true
	case "--include-partial-messages":
		q.partial = true
	case "--print":
		q.headless = true
	case "-p", "--prompt", "-i", "--prompt-interactive":
		switch cli {
		case agentcli.Claude:
			q.headless = q.headless || name == "-p"
		case agentcli.Gemini, agentcli.Copilot:
			q.words = append(q.words, value)
		}
	case "--json":
		if cli == agentcli.Codex {
			q.format = asStream
		}
	case "--output-format", "-o", "--format":
		return q.setFormat(cli, name, value)
	}
	return nil
}

func (q *request) setFormat(cli agentcli.CLI, name, value string) error {
	formats := map[agentcli.CLI]map[string]format{
		agentcli.Claude:   {"text": asText, "json": asObject, "stream-json": asStream},
		agentcli.Gemini:   {"text": asText, "json": asObject, "stream-json": asStream},
		agentcli.Opencode: {"default": asText, "json": asStream},
		agentcli.Copilot:  {"text": asText, "json": asStream},
	}[cli]
	if formats == nil || cli == agentcli.Opencode && name != "--format" {
		return nil // -o of codex is a file
	}
	f, ok := formats[value]
	if !ok {
		return fmt.Errorf("option %s has the value %.40q, which %s does not know", name, value, cli)
	}
	q.format = f
	return nil
}
