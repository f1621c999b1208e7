// Package aidefile defines what an Aidefile means. An agent with an Aidefile works in
// runs: a trigger starts a run, the run succeeds or fails, and a policy decides whether
// the next run follows at once, after a delay, or only after the next trigger. The package
// holds values and decisions: it reads no file, starts no process and uses no clock.
//
// # One supervisor
//
// Only package supervisor restarts anything. An agent with an Aidefile is therefore an
// ordinary leaf of the tree with a policy of the supervisor (see Policy.Child): always,
// on-failure and never are permanent, transient and temporary; max_restarts is a limit
// that gives up after consecutive restarts; the delays are those of supervisor.Backoff,
// which counts attempts from 0, with a cap of 300 s. Only a run that exits cleanly is a
// success and resets the count, however long a failing run lasts.
//
// The difference is that a trigger starts the agent, not the start of the tree. A trigger
// restarts a child that is down as a person would (RestartChild), if Decide permits it.
// No counter is kept here, and the next daemon does not restore those of the supervisor.
//
// A run is a process (package runner) in the same runtimes as other agents. It outlives
// the daemon, and its exit code is its result.
//
// # Details
//
//   - max_restarts counts consecutive restarts: a chain of failures is 1 + max_restarts
//     runs with max_restarts delays, none after the last. 0 is one run and no restart in
//     every mode.
//   - With always, a success resets the count to 0, the next delay is that of attempt 0,
//     and the restart does not count, so an agent without failures runs forever. The
//     delays of fail, fail, success, fail are 1, 2, 1, 1.
//   - A trigger during a run or a delay is skipped and recorded: runs neither overlap nor
//     queue.
//   - An agent that was given up runs once for each later trigger. Its count stays until a
//     success or a reset.
//   - Each run has a budget. An optional budget bounds all runs of a chain: when it is
//     used up the agent is given up at once.
//   - With a manual trigger alone, only a person starts the first run.
//   - A run fails if it cannot begin (a missing secret, a faulty Aidefile), times out or
//     uses up its budget.
//   - Each run reads the Aidefile again.
package aidefile

import (
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is the name of an Aidefile.
const FileName = "Aidefile"

// File is the contents of an Aidefile with defaults for what is missing. Its paths are
// unchanged.
type File struct {
	CLI       agentcli.CLI // that it calls; that of the project if empty
	Persona   Persona
	Budget    Budget
	Memory    Memory
	Hooks     Hooks
	Skills    []string // names or files
	Triggers  []Trigger
	Label     string   // of issues for an Issue trigger; the agent's name if empty
	Vault     []string // names of secrets
	Output    Output
	Workspace Workspace
	Policy    Policy
	// Allow has the kinds of tools that an agent may use which asks for permission over the Agent Client Protocol.
	Allow []string
}

// Default returns the File of an empty Aidefile.
func Default() File {
	return File{
		Budget:   Budget{Tokens: DefaultTokens, Timeout: DefaultTimeout, MaxRetries: DefaultMaxRetries},
		Memory:   Memory{CompactAfter: DefaultTokens},
		Triggers: []Trigger{{Kind: Manual}},
		Output:   Output{MaxSummaryTokens: DefaultSummaryTokens},
		Policy:   Single(),
		Allow:    DefaultAllow(),
	}
}

// ToolKinds returns the kinds of tools of the Agent Client Protocol.
func ToolKinds() []string {
	return []string{"read", "search", "think", "fetch", "edit", "move", "delete", "execute", "switch_mode", "other"}
}

// DefaultAllow returns the kinds of tools that change nothing.
func DefaultAllow() []string { return []string{"read", "search", "think", "fetch"} }

// StartsItself reports whether the agent has a trigger other than a person.
func (f File) StartsItself() bool { return !onlyManual(f.Triggers) }

// Defaults of a File.
const (
	DefaultTokens        = 200_000
	DefaultMaxRetries    = 3
	DefaultSummaryTokens = 500
	DefaultMaxRestarts   = 10
	// DefaultTimeout ends what would go on for days.
	DefaultTimeout = 6 * time.Hour
	// DefaultSilence is longer than command lines need to notice that their server is silent, and try again.
	DefaultSilence = 15 * time.Minute
	// MaxRestarts is the highest value of max_restarts.
	MaxRestarts = 1_000_000
)

// Persona names and describes the agent.
type Persona struct {
	Name  string // the name of its directory if empty
	Style string
}

// Memory configures what the agent keeps between runs, in the directory memory next to its
// Aidefile.
type Memory struct {
	// CompactAfter is the size in tokens (of 4 bytes) above which the agent is told to
	// make it smaller.
	CompactAfter int64
}

// Hooks run before and after a run, in their order. Each is a script next to the Aidefile,
// which sh runs, or a built-in hook.
type Hooks struct {
	OnSpawn    []string // before the run, which fails if a hook does
	OnComplete []string // after the run, however it ended
}

// Names of the built-in hooks.
const (
	// InjectVault does nothing: every run has its secrets.
	InjectVault = "inject-vault"
	// CommitMemory commits the memory to the git repository that contains it, without a push.
	CommitMemory = "commit-memory"
)

// BuiltIn reports whether a hook is built in.
func BuiltIn(hook string) bool { return hook == InjectVault || hook == CommitMemory }

// Output configures the summary of a run.
type Output struct {
	MaxSummaryTokens int64 // of 4 bytes
	NarrativeSchema  string
}

// Workspace lists what the agent may read.
type Workspace struct {
	Read []string
}

// Policy decides when another run follows without a trigger: the [daemon] table.
type Policy struct {
	Restart supervisor.Restart
	// MaxRestarts bounds consecutive restarts without a success.
	MaxRestarts int
	Backoff     supervisor.BackoffKind
}

// Single returns the policy without a [daemon] table: one run for each trigger.
func Single() Policy {
	return Policy{Restart: supervisor.Temporary, MaxRestarts: DefaultMaxRestarts, Backoff: supervisor.Exponential}
}

// Kept returns the policy of an empty [daemon] table.
func Kept() Policy {
	p := Single()
	p.Restart = supervisor.Transient
	return p
}

// MaxSleep bounds the delay between two runs: 5 minutes.
const MaxSleep = supervisor.DefaultBackoffCap

// Child returns the policy in the terms of package supervisor. base is the first delay, 1 s
// if zero.
func (p Policy) Child(base time.Duration) (supervisor.Restart, supervisor.Backoff, supervisor.Limit) {
	b := supervisor.Backoff{Kind: p.Backoff, Base: base, Cap: MaxSleep, StableAfter: -1}
	if p.Restart == supervisor.Temporary {
		return p.Restart, b, supervisor.Limit{}
	}
	return p.Restart, b, supervisor.GivingUp(p.MaxRestarts)
}

// Follows reports whether another run follows an exit while the limit is not reached.
func (p Policy) Follows(exit supervisor.Exit) bool {
	switch p.Restart {
	case supervisor.Permanent:
		return true
	case supervisor.Transient:
		return !exit.Clean()
	}
	return false
}

// Agent is an Aidefile in a project.
type Agent struct {
	Path string // of the Aidefile, absolute
	File File
	Settings
}

// Settings apply to all Aidefiles of a project.
type Settings struct {
	// Command is the command that a run calls, with placeholders (see package runner).
	Command []string `json:"command"`
	// CLI is the command line whose output that of Command is; empty if Command says it, see CommandLine.
	CLI agentcli.CLI `json:"cli,omitempty"`
	// Usage is where the command reports the tokens that it has used.
	Usage Source `json:"usage"`
	// PollInterval is the time between two listings of the issues.
	PollInterval time.Duration `json:"-"`
	// Base is the first delay of a chain, and the first delay between attempts in a run;
	// 1 s if zero.
	Base time.Duration `json:"base,omitempty"`
	// Vault is the directory of secrets, absolute.
	Vault string `json:"vault"`
}

// Source is the place where a command reports the tokens that it has used.
type Source uint8

const (
	AnySource   Source = iota // its usage file if it wrote one, otherwise its output
	FromOutput                // JSON in its standard output
	FromFile                  // the file that COPPICE_USAGE names
	FromNowhere               // it does not report them
)

func (s Source) String() string { return [...]string{"auto", "json", "file", "none"}[s] }

// DefaultSettings returns the settings of a project in dir that configures none.
func DefaultSettings(dir string) Settings {
	return Settings{
		Command: agentcli.Command(agentcli.Claude), PollInterval: time.Minute,
		Base: time.Second, Vault: filepath.Join(dir, "vault"),
	}
}

// CommandLine returns the command line that a run calls, Plain if it is not known.
func (s Settings) CommandLine() agentcli.CLI {
	if s.CLI != "" {
		return s.CLI
	}
	return agentcli.Detect(s.Command)
}

// For returns the settings of an Aidefile that names a command line, or none. If the command of the project is
// another one, the run calls that command line in the usual way.
func (s Settings) For(cli agentcli.CLI) Settings {
	if cli == "" || s.CommandLine() == cli {
		return s
	}
	if command := agentcli.Command(cli); command != nil {
		s.Command = command
	}
	s.CLI = cli
	return s
}
