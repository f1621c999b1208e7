package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Argv returns the command of an incarnation. Its RunRequest is the file RequestName of its runtime.Launch, and Environ
// has what depends on the machine.
func Argv(exe string) []string { return []string{exe, Arg} }

// Variables of a run, which name files of its machine.
const (
	envAidefile = proc.EnvPrefix + "AIDEFILE"
	envVault    = proc.EnvPrefix + "VAULT"
)

// Environ returns the variables that tell a run on this machine where the Aidefile and the directory of secrets are.
func Environ(file *aidefile.Agent) []string {
	return []string{envAidefile + "=" + file.Path, envVault + "=" + file.Settings.Vault}
}

// Localize returns an environment with the variables of Environ, which another machine has made, as it is on this one.
// here returns the path on this machine of a file that the other one names.
func Localize(env []string, here func(path string) string) []string {
	for i, kv := range env {
		name, path, _ := strings.Cut(kv, "=")
		if name == envAidefile || name == envVault {
			env = slices.Clone(env)
			env[i] = name + "=" + here(path)
		}
	}
	return env
}

// RequestName is the name of the file of a RunRequest.
const RequestName = "order.json"

// RunRequest describes a run to make.
type RunRequest struct {
	// Aidefile and Settings.Vault are absolute paths on the machine of the controller: see Environ.
	Aidefile string            `json:"aidefile"`
	Settings aidefile.Settings `json:"settings"`
	Trigger  string            `json:"trigger"` // as the Aidefile spells it
	Task     string            `json:"task"`
	Issue    int               `json:"issue,omitempty"` // of the task
	Fired    time.Time         `json:"fired"`
	Chain    time.Time         `json:"chain"` // start of its chain of runs: Fired, or a later reset
	// Spent are the tokens that the chain has used before this run.
	Spent int64 `json:"spent,omitempty"`
	// Sessions has the totals that were counted before, of the sessions that the agent has used.
	Sessions map[string]agentcli.Models `json:"sessions,omitempty"`
}

// maxRequest bounds a RunRequest's file, in bytes.
const maxRequest = 4 << 20

// Read reads a RunRequest.
func Read(path string) (q RunRequest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return q, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRequest+1))
	if err != nil {
		return q, err
	}
	if q, err = Parse(text); err != nil {
		return q, fmt.Errorf("%s: %w", path, err)
	}
	return q, nil
}

// Parse parses the text of a RunRequest.
func Parse(text []byte) (q RunRequest, err error) {
	if len(text) > maxRequest {
		return q, fmt.Errorf("it has more than %d bytes", maxRequest)
	}
	err = json.Unmarshal(text, &q)
	return q, err
}

// Work returns what the run works at, for people; empty if that is no issue.
func (q RunRequest) Work() string {
	if q.Issue == 0 {
		return ""
	}
	return fmt.Sprintf("issue %d", q.Issue)
}

// Text returns the text of the file of the RunRequest.
func (q RunRequest) Text() ([]byte, error) {
	text, err := json.Marshal(q)
	if err == nil && len(text) > maxRequest {
		err = fmt.Errorf("the request of the run has %d bytes, expected at most %d", len(text), maxRequest)
	}
	return text, err
}
