package pipeline

import "github.com/coppice-dev/coppice/internal/agentcli"

// WritesTree reports whether the command of a stage may write to its worktree.
func (s Stage) WritesTree(n Name) bool { return n != Plan && n != Security && !s.ApplyEdits }

// Homes returns where a command line keeps its settings and sessions, relative to the home directory. The stages that
// call it may write there.
func Homes(cli agentcli.CLI) []string {
	switch cli {
	case agentcli.Claude:
		return []string{".claude", ".claude.json"}
	case agentcli.Codex:
		return []string{".codex"}
	case agentcli.Gemini:
		return []string{".gemini"}
	case agentcli.Opencode:
		return []string{".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"}
	case agentcli.Copilot:
		return []string{".copilot", ".config/github-copilot"}
	}
	return nil
}
