// Package aide is what an Aidefile means: agents that work by the run. A
// trigger starts a run, its end is a success or a failure, and a policy says
// whether the next one follows at once, later, or not before the next trigger.
// The package is values and decisions: it reads no file, starts nothing and
// looks at no clock. (The aide seed.)
//
// # One supervisor
//
// There is one path on which anything is restarted: package supervisor. So an
// agent of an Aidefile is an ordinary leaf of the tree, whose policy is one of
// the supervisor's (see Policy.Child): always, on-failure and never are
// permanent, transient and temporary; max_restarts is a limit that gives up
// after consecutive restarts; the seed's table of sleeps is that of
// supervisor.Backoff, which counts attempts from 0 and bounds each sleep by
// 300 s. A run that ends well is the one thing that is a success: however long
// a run that fails has taken, its count goes on.
//
// What is new is only who begins: not the start of the tree, but a trigger. A
// firing is a start by hand (RestartChild) of a child that is down, and Decide
// says when it is one. No counter is kept here. Those of the supervisor are
// not restored by a later daemon, as the seed wants it.
//
// A run is a process (package runner) in the runtime of all agents: it outlives
// the daemon, and its exit code is how it ended.
//
// # What the seed leaves open
//
//   - max_restarts is how many restarts follow each other: a chain of failures
//     is 1 + max_restarts runs and max_restarts sleeps, none after the last.
//     0 is one run and no restart, whatever the mode.
//   - always, after a success: the count is 0, the sleep is that of attempt 0,
//     and the restart is not counted, so that an agent without failures runs
//     for ever. Fail, fail, success, fail sleeps 1, 2, 1, 1.
//   - A firing during a run or a sleep is skipped and recorded: runs never
//     stack, and wait for nothing.
//   - An agent that was given up runs once for each later trigger. Its count
//     stays; a success clears it, and so does a reset.
//   - Each run has a budget of its own. A budget for all runs of a chain is
//     there for who wants one: when it is used up the agent is given up at once.
//   - A manual trigger has no first run but the one that a person starts.
//   - A run that cannot begin (no such secret, a faulty Aidefile) has failed,
//     and so has one that took too long or used up its budget.
//   - The Aidefile is read anew for each run.
package aidefile

import (
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// FileName is what an Aidefile is called.
const FileName = "Aidefile"

// File is what an Aidefile says, with the defaults for what it does not say.
// Paths in it are as they were written.
type File struct {
	Persona   Persona
	Budget    Budget
	Memory    Memory
	Hooks     Hooks
	Skills    []string // names or files
	Triggers  []Trigger
	Label     string   // of the issues of an Issue trigger; the agent's name if empty
	Vault     []string // names of secrets
	Output    Output
	Workspace Workspace
	Policy    Policy
}

// Default is the File of an Aidefile that says nothing.
func Default() File {
	return File{
		Budget:   Budget{Tokens: DefaultTokens, MaxRetries: DefaultMaxRetries},
		Memory:   Memory{CompactAfter: DefaultTokens},
		Triggers: []Trigger{{Kind: Manual}},
		Output:   Output{MaxSummaryTokens: DefaultSummaryTokens},
		Policy:   Single(),
	}
}

// StartsItself reports whether the agent has a trigger other than a person.
func (f File) StartsItself() bool { return !onlyManual(f.Triggers) }

// Defaults of a File.
const (
	DefaultTokens        = 200_000
	DefaultMaxRetries    = 3
	DefaultSummaryTokens = 500
	DefaultMaxRestarts   = 10
	// MaxRestarts is the highest max_restarts; more is no limit.
	MaxRestarts = 1_000_000
)

// Persona is who the agent is.
type Persona struct {
	Name  string // empty: that of its directory
	Style string
}

// Memory is what the agent keeps from run to run, in the directory memory
// beside its Aidefile.
type Memory struct {
	// CompactAfter is how large it may become, in tokens (of 4 bytes), before
	// the agent is told to make it smaller.
	CompactAfter int64
}

// Hooks run beside a run, in their order. Each is a program beside the
// Aidefile that sh runs, or one of the hooks that are built in.
type Hooks struct {
	OnSpawn    []string // before it; the run has failed if one fails
	OnComplete []string // after it, however it ended
}

// Names of hooks that are built in.
const (
	// InjectVault does nothing: secrets are there in any case.
	InjectVault = "inject-vault"
	// CommitMemory commits the memory to the git repository it is in. It pushes nothing.
	CommitMemory = "commit-memory"
)

// BuiltIn reports whether a hook is built in.
func BuiltIn(hook string) bool { return hook == InjectVault || hook == CommitMemory }

// Output is what is kept of what the agent says.
type Output struct {
	MaxSummaryTokens int64 // of 4 bytes
	NarrativeSchema  string
}

// Workspace is where the agent may look.
type Workspace struct {
	Read []string
}

// Policy is when a run is followed by another one without a trigger: the
// [daemon] table.
type Policy struct {
	Restart supervisor.Restart
	// MaxRestarts is how many restarts may follow each other without a success.
	MaxRestarts int
	Backoff     supervisor.BackoffKind
}

// Single is the policy without a [daemon] table: one run for each trigger.
func Single() Policy {
	return Policy{Restart: supervisor.Temporary, MaxRestarts: DefaultMaxRestarts, Backoff: supervisor.Exponential}
}

// Kept is the policy of an empty [daemon] table.
func Kept() Policy {
	p := Single()
	p.Restart = supervisor.Transient
	return p
}

// MaxSleep bounds each sleep between two runs. (The seed: 5 minutes.)
const MaxSleep = supervisor.DefaultBackoffCap

// Child is the policy as the supervisor knows it. Base is the first sleep, 1 s
// if zero.
func (p Policy) Child(base time.Duration) (supervisor.Restart, supervisor.Backoff, supervisor.Limit) {
	b := supervisor.Backoff{Kind: p.Backoff, Base: base, Cap: MaxSleep, StableAfter: -1}
	if p.Restart == supervisor.Temporary {
		return p.Restart, b, supervisor.Limit{}
	}
	return p.Restart, b, supervisor.GivingUp(p.MaxRestarts)
}

// Follows reports whether another run follows one that has ended like this,
// unless its count is full.
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

// Settings are those of a project for all its Aidefiles.
type Settings struct {
	// Command is what a run calls, with placeholders (see package runner).
	Command []string `json:"command"`
	// Usage is where the command says what it has used.
	Usage Source `json:"usage"`
	// PollInterval is the time between two looks at the issues.
	PollInterval time.Duration `json:"-"`
	// Base is the first sleep of a chain, and the first pause between the tries
	// of a run; 1 s if zero.
	Base time.Duration `json:"base,omitempty"`
	// Vault is the directory of secrets, absolute.
	Vault string `json:"vault"`
}

// Source is where a command says how many tokens it has used.
type Source uint8

const (
	AnySource   Source = iota // its usage file if it wrote one, else its output
	FromOutput                // JSON in its standard output
	FromFile                  // the file that COPPICE_USAGE names
	FromNowhere               // it does not
)

func (s Source) String() string { return [...]string{"auto", "json", "file", "none"}[s] }

// DefaultSettings are those of a project that says nothing, in dir.
func DefaultSettings(dir string) Settings {
	return Settings{
		Command: []string{"claude", "-p", "--output-format", "stream-json", "--verbose"}, PollInterval: time.Minute,
		Base: time.Second, Vault: filepath.Join(dir, "vault"),
	}
}
