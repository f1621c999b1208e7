// Package spec defines the desired tree of a project as plain values. All formats
// (coppice.toml, Sage programs and others) produce it, and the daemon runs it. The package
// knows no file format and does no I/O.
package spec

import (
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/supervisor"
)

// Tree is the desired tree of a project. Trees that Assemble returns are valid.
type Tree struct {
	Root *Node
	// RestorePolicy selects which states of limits the next daemon restores.
	RestorePolicy RestorePolicy
	// Persistence is the store of the state.
	Persistence Persistence
	// Retention limits the event log.
	Retention Retention
	// Logs is the default of Agent.Logs.
	Logs Logs
	// Patrol has the settings of reconciliation.
	Patrol Patrol
	// Orders are commands and tasks that run when their gates open.
	Orders []*Order
	// Quotas are accounts of command lines of language models, in the order of the file.
	Quotas []Quota
	// Budgets limit what agents use, in the order of the file.
	Budgets []Budget
	// Services are those that blocked tasks can wait for, in the order of the file.
	Services []Service
	// Notify says how people are notified, in the order of the file.
	Notify []Notify
	// Deadman is pinged while the daemon works.
	Deadman Deadman
	// OTLP receives what command lines of language models export.
	OTLP OTLP
	// Metrics are exported to Prometheus; zero if they are not.
	Metrics Metrics
	// Web is the page that the daemon serves; zero if it serves none.
	Web Web
	// Traces are exported; zero if they are not.
	Traces Traces
}

// Node is a supervisor.
type Node struct {
	// Name is unique in the tree; see CheckName. The root has the name of the project.
	Name     string
	Strategy supervisor.Strategy
	// Limit applies to all children together; Escalating(5, 60 s) if zero.
	Limit supervisor.Limit
	// Restart and Backoff apply to the supervisor as a child of its parent.
	Restart      supervisor.Restart
	Backoff      supervisor.Backoff
	AutoShutdown supervisor.AutoShutdown
	// Significant children take part in the AutoShutdown of their parent.
	Significant bool
	// Suspended keeps everything below it from running. The root has that of the project.
	Suspended bool
	// DependsOn are the names of agents and supervisors that must be ready before anything in it
	// starts, and that stop after it. See StartOrder.
	DependsOn []string
	// AllowEmpty allows a root without agents, as a project may have only orders.
	AllowEmpty bool
	// InOrder stops the children one after the other, last one first. A RestForOne supervisor
	// always does.
	InOrder bool
	// Children are in start order.
	Children []Child
	// Program is the path of a Sage program that runs below the root, after its children: a file,
	// or the directory of a project. The loader of the language turns it into children. Agents
	// that it names move to where the program places them.
	Program string
	// Template is the declared agent of a pool, whose instances are the children. It is nil for
	// any other supervisor.
	Template *Agent
	// Retired marks a pool that is no longer in the file, and a supervisor that exists only for
	// such a pool. See Retain.
	Retired bool
}

// StopsInOrder reports whether the children stop one after the other, last one first, and not
// all at once.
func (n *Node) StopsInOrder() bool { return n.InOrder || n.Strategy == supervisor.RestForOne }

// Agent is a leaf of the tree: an OS process, or an agent of a program.
type Agent struct {
	// Name is unique in the tree; see CheckName.
	Name string
	// Command is the argument vector. Command[0] is relative to Dir if it has a slash; otherwise
	// it is looked up in the PATH of the agent.
	Command []string
	// CLI is the command line of a language model whose output that of the agent is; empty if Command says it, see
	// CommandLine.
	CLI agentcli.CLI
	// Dir is the absolute path of the working directory.
	Dir string
	// Program has the agent instead of a command. Revision identifies its behavior there and changes
	// with it.
	Program  *Program `json:"-"`
	Revision string
	// Env are variables in addition to the few that every agent gets.
	Env map[string]string
	// EnvFiles are the absolute paths of files with more variables, which are read at each
	// start. Later files take precedence, and Env takes precedence over all files.
	EnvFiles []string
	// Files are the absolute paths of files that the agent reads when it starts. A change of
	// their content restarts it.
	Files []string
	// Stdin is the absolute path of a file. If it is empty, standard input is the terminal, if
	// there is one, or the null device.
	Stdin string
	// Runtime is the runtime that the agent runs in.
	Runtime Runtime
	// Terminal gives the agent a pseudo terminal instead of pipes. Assemble sets it for the
	// runtime Tmux, which always has one.
	Terminal bool
	Limits   Limits
	// User is the name or number of the user of the agent and its commands; that of the daemon
	// if empty. Group replaces the primary group of the user. Linux only, and only if the daemon
	// may switch users.
	User, Group string
	// NoNewPrivileges keeps the agent and its commands from gaining privileges by executing a
	// program. Linux only.
	NoNewPrivileges bool
	// Home is the directory of the project on a node of a fleet, whose machines may have it in different places. Paths
	// in it count as the same on all of them. It is empty without a fleet.
	Home string
	// ReadWritePaths are where the agent and its commands may write; see landlock.Paths. Nil means
	// anywhere that its user may, an empty list nowhere. Linux only.
	ReadWritePaths []string
	// ReadOnlyPaths are exceptions from ReadWritePaths.
	ReadOnlyPaths []string
	// Placement says on which nodes it may run. An instance has that of its pool.
	Placement Placement
	// Logs limits its output from the next incarnation on. Zero fields mean those of Tree.Logs.
	Logs Logs

	Restart supervisor.Restart
	Backoff supervisor.Backoff
	// Limit is its own limit; if zero, restarts count in its supervisor.
	Limit supervisor.Limit
	// DefaultBackoff and DefaultLimit report that Backoff and Limit are the defaults of the
	// file. They do not apply in a Sage program.
	DefaultBackoff, DefaultLimit bool
	Significant                  bool
	// Suspended keeps it from running, as does a suspended supervisor above it.
	Suspended bool
	DependsOn []string // like Node.DependsOn
	Shutdown  Shutdown
	Ready     Ready
	Hooks     Hooks
	// Beliefs are the beliefs that it may have. If none is declared, it may have any, and all of
	// them persist. They are read when an incarnation begins.
	Beliefs []Belief
	// Notify gives it a socket to report its status, as for systemd services (sd_notify).
	// Assemble sets it if Ready.Notify or Watchdog needs it.
	Notify bool
	// Watchdog is the longest time without a report on that socket; 0 means no limit.
	Watchdog time.Duration
	// HeartbeatTimeout is the longest time without a heartbeat once the agent is ready, and
	// ProgressTimeout the longest time with the same progress. Zero means no limit.
	HeartbeatTimeout time.Duration
	ProgressTimeout  time.Duration
	// ProcessNames are the programs that the agent consists of. If none of them is among its
	// processes, the agent has ended, even if its first process is alive. If the list is empty,
	// the agent lives as long as its process.
	ProcessNames []string
	// IdleTimeout is the longest time without input or output on its terminal or pipes once it
	// is ready. Zero means no limit.
	IdleTimeout time.Duration
	Nudge       Nudge
	// Aide makes it an agent with an Aidefile, which runs when its triggers fire. It has no
	// Command. Restart, Backoff and Limit come from the policy of the Aidefile.
	Aide *aidefile.Agent
	// Pipeline makes it a worker of a pipeline, whose stages call Command; nil if it is none.
	Pipeline *pipeline.Settings
	// Pool makes it a pool. In a tree it is nil except in Node.Template.
	Pool *Pool
	// Instance identifies the pool of an instance; zero for other agents.
	Instance Instance
}

// CommandLine returns the command line of a language model that the agent runs, Plain if it runs none that is known.
func (a *Agent) CommandLine() agentcli.CLI {
	switch {
	case a.Aide != nil:
		return a.Aide.CommandLine()
	case a.CLI != "":
		return a.CLI
	}
	return agentcli.Detect(a.Command)
}

// Vendor returns the command line whose account the agent uses: that behind an agent that speaks the Agent Client
// Protocol, or else CommandLine. It is Plain if it is not known.
func (a *Agent) Vendor() agentcli.CLI {
	if cli := a.CommandLine(); cli != agentcli.ACP {
		return cli
	}
	return agentcli.Vendor(a.CallCommand())
}

// CallCommand returns the command that starts the command line of a language model: that of the runs of an Aidefile,
// or else that of the agent.
func (a *Agent) CallCommand() []string {
	if a.Aide != nil {
		return a.Aide.Command
	}
	return a.Command
}

// ReportsCalls reports whether the agent follows the calls of command lines that it makes itself, and reports them in a
// file: see package agentcli/callfile.
func (a *Agent) ReportsCalls() bool { return a.Aide != nil || a.Pipeline != nil }

// Nudge is the way to remind an agent of a missing heartbeat or of pending work. At most one
// field is set; with none, the agent is not reminded.
type Nudge struct {
	Type    bool     // a fixed line and Enter are typed into its terminal
	Signal  string   // as in Shutdown
	Command []string // argument vector, run in addition to the agent
}

// Exists reports whether a field is set.
func (n Nudge) Exists() bool { return n.Type || n.Signal != "" || len(n.Command) > 0 }

// Shutdown is the way to ask an agent to stop.
type Shutdown struct {
	// Signal is sent to the whole process group. It is a name that ParseSignal returns;
	// DefaultSignal if empty. KILL ends the agent at once.
	Signal string
	// Grace is the time between Signal and SIGKILL; supervisor.DefaultShutdown if zero.
	Grace time.Duration
}

// Ready is the condition under which an agent counts as started. Dependents and later
// siblings wait for it. At most one condition is set; with none, an agent is ready when its
// process exists.
type Ready struct {
	Log    string   // a regular expression (RE2) that a line of the output matches
	TCP    string   // host:port that accepts a connection
	HTTP   string   // URL that answers with a status from 200 to 299; redirects are not followed
	Exec   []string // argument vector of a command that exits with 0, run like the agent's
	Notify bool     // the agent reports it (sd_notify)
	// Timeout is the time to become ready; DefaultReadyTimeout if zero. An agent that is not
	// ready by then has failed.
	Timeout time.Duration
}

// IsSet reports whether there is a condition.
func (r Ready) IsSet() bool {
	return r.Log != "" || r.TCP != "" || r.HTTP != "" || len(r.Exec) > 0 || r.Notify
}

// Defaults that Assemble fills in.
const (
	DefaultSignal       = "TERM"
	DefaultReadyTimeout = 30 * time.Second
	// MinWatchdog is the shortest Agent.Watchdog.
	MinWatchdog = time.Second
)

// Child is a supervisor or agent below the root. Exactly one field is set.
type Child struct {
	Node  *Node
	Agent *Agent
}

// Declared returns the agent, or the declared agent of a pool; nil for any other supervisor.
func (c Child) Declared() *Agent {
	if c.Node != nil {
		return c.Node.Template
	}
	return c.Agent
}

// Name returns the name of the supervisor or agent.
func (c Child) Name() string {
	if c.Node != nil {
		return c.Node.Name
	}
	return c.Agent.Name
}

// DependsOn returns the dependencies of the supervisor or agent, or of the agent of a pool.
func (c Child) DependsOn() []string {
	switch {
	case c.Node == nil:
		return c.Agent.DependsOn
	case c.Node.Template != nil:
		return c.Node.Template.DependsOn
	}
	return c.Node.DependsOn
}

// All yields all supervisors and agents below the root with their paths, parents before their
// children and siblings in start order.
func (t *Tree) All() iter.Seq2[string, Child] {
	return func(yield func(string, Child) bool) {
		each(t.Root.Name, t.Root.Children, yield)
	}
}

func each(path string, children []Child, yield func(string, Child) bool) bool {
	for _, c := range children {
		p := path + "/" + c.Name()
		if !yield(p, c) || c.Node != nil && !each(p, c.Node.Children, yield) {
			return false
		}
	}
	return true
}
