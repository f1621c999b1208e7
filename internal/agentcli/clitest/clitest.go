// Package clitest runs the command lines of language models, as npm installs them, against a server of a test.
//
// A Set is what is installed. A Home has all files of a command line, so that several run at the same time and none
// reads settings of the user. A Run is one call: what it writes is read while it comes, and its end is
// classified as Coppice does it.
package clitest

import (
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/exectest"
)

// Kind is a command line with an account.
type Kind string

const (
	Claude      Kind = "claude"       // with an API key
	ClaudeOAuth Kind = "claude-oauth" // with a subscription
	Codex       Kind = "codex"
	Gemini      Kind = "gemini"
	Opencode    Kind = "opencode"
	Copilot     Kind = "copilot"
	ACP         Kind = "acp"       // claude-agent-acp, with an API key
	ACPOAuth    Kind = "acp-oauth" // claude-agent-acp, with a subscription
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Claude, ClaudeOAuth, Codex, Gemini, Opencode, Copilot, ACP, ACPOAuth}
}

// CLI returns the command line.
func (k Kind) CLI() agentcli.CLI {
	switch k {
	case ClaudeOAuth:
		return agentcli.Claude
	case ACP, ACPOAuth:
		return agentcli.ACP
	}
	return agentcli.CLI(k)
}

// Account returns what pays; UnknownAccount if the command line does not tell.
func (k Kind) Account() agentcli.Account {
	switch k {
	case Claude:
		return agentcli.APIKey
	case ClaudeOAuth:
		return agentcli.Subscription
	}
	return agentcli.UnknownAccount
}

// Set is what is installed of tools/clis.
type Set struct {
	dir       string
	unpack    sync.Once
	unpackErr error
}

// Installed returns the command lines that tools/deps.sh has installed in a directory. Without them the test is
// skipped; in CI it fails.
func Installed(t testing.TB, dir string) *Set {
	t.Helper()
	dir = exectest.Packages(t, dir)
	if runtime.GOOS != "linux" {
		t.Skip("what a command line leaves behind is found on Linux only")
	}
	return &Set{dir: dir}
}

// Program returns the file of a command line. Those of claude and opencode are in packages of their own, which
// the installation scripts of the packages with their names would link to: these scripts do not run.
func (s *Set) Program(k Kind) string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	switch k {
	case Claude, ClaudeOAuth:
		return s.file("@anthropic-ai/claude-code-linux-"+arch, "claude")
	case Opencode:
		if arch == "x64" {
			arch += "-baseline" // for any processor
		}
		return s.file("opencode-linux-"+arch, "bin/opencode")
	case ACP, ACPOAuth:
		return s.file(".bin/claude-agent-acp")
	}
	return s.file(".bin", string(k))
}

// file returns the path of a file in node_modules.
func (s *Set) file(elements ...string) string {
	return filepath.Join(append([]string{s.dir, "node_modules"}, elements...)...)
}

// copilotCache is the directory where copilot unpacks itself, 235 MB, when it starts for the first time.
func (s *Set) copilotCache() string { return filepath.Join(s.dir, "copilot") }
