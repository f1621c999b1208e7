package agentcli

// Command returns the command with which a command line does a task that it reads from standard input, and
// reports what it does as JSON. It is nil if there is none.
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
	}
	return nil
}
