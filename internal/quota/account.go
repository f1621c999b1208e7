package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/spec"
)

// accountVariables returns the variables that choose the account of a command line.
func accountVariables(cli agentcli.CLI) []string {
	switch cli {
	case agentcli.Claude:
		return []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN",
			"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CONFIG_DIR", "HOME",
		}
	case agentcli.Codex:
		return []string{"CODEX_API_KEY", "CODEX_HOME", "HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"}
	case agentcli.Gemini:
		return []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GEMINI_BASE_URL", "HOME"}
	case agentcli.Opencode:
		return []string{"ANTHROPIC_API_KEY", "HOME", "OPENAI_API_KEY", "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"}
	case agentcli.Copilot:
		return []string{
			"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL", "GH_TOKEN", "GITHUB_TOKEN",
			"HOME",
		}
	}
	return nil
}

// Fleet is what is declared at one moment.
type Fleet struct {
	Agents map[string]*spec.Agent // by path; not to be changed
	Quotas []spec.Quota
}

// accounts returns the names of the accounts that an agent may use: its own, and the one that comes next.
func (f Fleet) accounts(path string) []string {
	a := f.Agents[path]
	if a == nil {
		return []string{path}
	}
	for i := range f.Quotas {
		if q := &f.Quotas[i]; q.IsFor(path, a) {
			if q.Next != "" {
				return []string{q.Name, q.Next}
			}
			return []string{q.Name}
		}
	}
	return []string{nameOf(path, a.Vendor(), a.Env)}
}

// quota returns a declared account; nil if there is none of that name.
func (f Fleet) quota(name string) *spec.Quota {
	if i := slices.IndexFunc(f.Quotas, func(q spec.Quota) bool { return q.Name == name }); i >= 0 {
		return &f.Quotas[i]
	}
	return nil
}

// exists reports whether an account is declared, or is one of agents without a [[quota]]: its agents may be gone for
// now.
func (f Fleet) exists(name string) bool {
	return f.quota(name) != nil || spec.IsAutomaticQuota(name) || strings.Contains(name, "/")
}

// nameOf returns the name of the pool of the agents that run the same command line with the same account.
// An agent whose command line is not known has a pool of its own.
func nameOf(path string, cli agentcli.CLI, env map[string]string) string {
	if cli == agentcli.Plain || cli == "" {
		return path
	}
	var set []string
	for _, name := range accountVariables(cli) {
		if value, ok := env[name]; ok {
			set = append(set, name+"="+value)
		}
	}
	if len(set) == 0 {
		return string(cli)
	}
	slices.Sort(set)
	sum := sha256.Sum256([]byte(strings.Join(set, "\x00"))) // a name must not show a key
	return string(cli) + "-" + hex.EncodeToString(sum[:3])
}
