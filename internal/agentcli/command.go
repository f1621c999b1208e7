package agentcli

import (
	"slices"
	"strings"
)

// Command returns the command with which a command line does a task that it reads from standard input, and
// reports what it does as JSON; for ACP, the agent that a run talks to. It is nil if there is none.
func Command(cli CLI) []string {
	switch cli {
	case Claude:
		return []string{"claude", "-p", "--output-format", "stream-json", "--verbose"}
	case Codex:
		return []string{"codex", "exec", "--json", "-"}
	case Gemini:
		return []string{"gemini", "--output-format", "stream-json"}
	case Opencode:
		return []string{"opencode", "run", "--format", "json"}
	case Copilot: // without a person it needs to be told that it may use tools
		return []string{"copilot", "--output-format", "json", "--allow-all-tools"}
	case ACP:
		return []string{"claude-agent-acp"}
	}
	return nil
}

// Model returns the model that a command and its environment choose, empty if it is not known. The short option -m
// means a model only where the command is the command line itself, and not a script that calls it.
func Model(cli CLI, argv []string, env map[string]string) string {
	found, arguments := detect(argv)
	options := []string{"--model"}
	if found.name == cli {
		options = append(options, "-m")
	} else {
		arguments = argv[min(1, len(argv)):]
	}
	for i, word := range arguments {
		if word == "--" {
			break
		}
		name, value, joined := strings.Cut(word, "=")
		switch {
		case !slices.Contains(options, name):
		case joined:
			return value
		case i+1 < len(arguments):
			return arguments[i+1]
		}
	}
	switch cli {
	case Claude:
		return env["ANTHROPIC_MODEL"]
	case Gemini:
		return env["GEMINI_MODEL"]
	case Copilot:
		return env["COPILOT_MODEL"]
	}
	return ""
}
