// Package agentcli knows the command lines of language models: claude, codex, gemini, opencode and
// copilot. It turns what they write, on standard output, on standard error and into their own session
// files, into one set of events, and says how a run has ended and what has to happen next. It starts
// no process and reads no file.
//
// # What counts
//
// Only structured fields decide, and messages of the command line itself that begin with known words.
// Words of the model, of the user and of tools never do. An exit code of 0 proves nothing, and another
// one hides nothing: what a command line has reported is looked at first. Unknown kinds of objects are
// counted and ignored, since the formats grow.
//
// # Tokens
//
// Tokens are the sum of input, output and what was written to a cache. Input that was read from a cache
// costs next to nothing and is not counted. Some command lines report each message, others only a total
// at the end, which may include earlier runs of the same session (see Report.Cumulative).
package agentcli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/suggest"
)

// CLI names a command line of a language model.
type CLI string

const (
	Claude   CLI = "claude"
	Codex    CLI = "codex"
	Gemini   CLI = "gemini"
	Opencode CLI = "opencode"
	Copilot  CLI = "copilot"
	// ACP is any agent that speaks the Agent Client Protocol, see package acp. A Stream does not parse it: its
	// events are added.
	ACP CLI = "acp"
	// Plain is any other command. It may print the objects of all others, since it may call them, and
	// objects with a usage.
	Plain CLI = "plain"
)

// CLIs returns all command lines whose output a Stream parses.
func CLIs() []CLI { return []CLI{Claude, Codex, Gemini, Opencode, Copilot, Plain} }

// Callable returns all command lines that a run can call.
func Callable() []CLI { return append(CLIs(), ACP) }

// Parse parses the name of one of some command lines.
func Parse(name string, known []CLI) (CLI, error) {
	var names []string
	for _, c := range known {
		if string(c) == name {
			return c, nil
		}
		names = append(names, string(c))
	}
	err := fmt.Errorf("unknown command line %.40q, expected one of %s", name, strings.Join(names, ", "))
	if near := suggest.Nearest(name, names); near != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return "", err
}

// launchers are programs that start the program that their arguments name, with their options that are
// followed by a value.
var launchers = map[string]string{
	"env": "-u -C", "npx": "-p --package", "bunx": "", "nice": "-n", "node": "-r", "timeout": "-s -k", "exec": "-a",
	"nohup": "", "stdbuf": "-i -o -e",
}

// packages are the names under which package managers know the command lines.
var packages = map[string]CLI{"@anthropic-ai/claude-code": Claude, "@openai/codex": Codex, "@google/gemini-cli": Gemini,
	"opencode-ai": Opencode, "@github/copilot": Copilot}

// adapters of command lines for the Agent Client Protocol, and the arguments with which others speak it.
var (
	acpAgents    = map[string]CLI{"claude-agent-acp": Claude, "claude-code-acp": Claude, "codex-acp": Codex}
	acpArguments = map[CLI][]string{Gemini: {"--acp", "--experimental-acp"}, Opencode: {"acp"}, Copilot: {"--acp"}}
)

// speaksACP reports whether the arguments of a command line have it speak the Agent Client Protocol. A word
// without a dash is a command, which is the first such word.
func speaksACP(cli CLI, arguments []string) bool {
	command := true
	for _, a := range arguments {
		if a == "--" {
			return false
		}
		option := strings.HasPrefix(a, "-")
		if (option || command) && slices.Contains(acpArguments[cli], a) {
			return true
		}
		command = command && option
	}
	return false
}

// Detect returns the command line that argv starts, Plain if it is none that is known. It looks through
// programs that start others, such as env and npx.
func Detect(argv []string) CLI {
	cli, _ := detect(argv)
	return cli.name
}

// Vendor returns the command line that argv starts, also behind the Agent Client Protocol: it has the account and the
// files of the sessions. It is Plain if that is not known.
func Vendor(argv []string) CLI {
	cli, _ := detect(argv)
	return cli.vendor
}

// Split splits a command around the program of the command line that it starts, which is Plain if it starts none
// that is known. Programs that only find the command line and run it, such as npx, are part of the program.
func Split(argv []string) (before []string, cli CLI, arguments []string) {
	found, arguments := detect(argv)
	if found.name == Plain {
		return nil, Plain, nil
	}
	before = argv[:len(argv)-len(arguments)-1]
	for i, word := range before {
		switch filepath.Base(word) {
		case "npx", "bunx", "node":
			return before[:i], found.name, arguments
		}
	}
	return before, found.name, arguments
}

// detected is a command line that a command starts. Its name is ACP and not that of its vendor if it speaks the Agent
// Client Protocol.
type detected struct{ name, vendor CLI }

// detect returns the command line, and its arguments.
func detect(argv []string) (detected, []string) {
	cli, arguments, adapter := find(argv)
	if adapter || speaksACP(cli, arguments) {
		return detected{ACP, cli}, arguments
	}
	return detected{cli, cli}, arguments
}

// find returns the vendor of a command line, its arguments, and whether it is an adapter for the Agent Client Protocol.
func find(argv []string) (vendor CLI, arguments []string, adapter bool) {
	for i := 0; i < len(argv); i++ {
		word := argv[i]
		name, _, _ := strings.Cut(word, "@latest")
		if cli, ok := packages[name]; ok {
			return cli, argv[i+1:], false
		}
		base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".js"), ".exe")
		for _, cli := range CLIs() {
			if base == string(cli) && cli != Plain {
				return cli, argv[i+1:], false
			}
		}
		if cli, ok := acpAgents[base]; ok {
			return cli, argv[i+1:], true
		}
		values, launches := launchers[base]
		if !launches {
			break
		}
		i = program(argv, i+1, base, strings.Fields(values)) - 1
	}
	return Plain, nil, false
}

// program returns the index of the program that a launcher starts: it skips options, assignments and
// the duration of timeout.
func program(argv []string, i int, launcher string, values []string) int {
	for ; i < len(argv); i++ {
		word := argv[i]
		switch {
		case word == "--":
			return i + 1
		case strings.HasPrefix(word, "-"):
			for _, v := range values {
				if v == word {
					i++
				}
			}
		case launcher == "env" && strings.Contains(word, "="):
		case launcher == "timeout":
			return i + 1
		default:
			return i
		}
	}
	return i
}
