// Package spec defines the desired tree of a project as plain values. All formats
// (coppice.toml, Sage programs and others) produce it, and the daemon runs it. The
// package knows no file format and does no I/O.
package spec

import (
	"context"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// Tree is the desired tree of a project. Assemble makes it, and only a tree
// that it made is known to be valid.
type Tree struct {
	Root *Node
	// Recall selects what the next daemon keeps of the limits.
	Recall Recall
	// Persistence is where the state is kept.
	Persistence Persistence
	// Retention says how much of the event log is kept.
	Retention Retention
	// Logs is the default of Agent.Logs.
	Logs Logs
	// Patrol has the settings of reconciliation.
	Patrol Patrol
	// Orders are what is run when its gates open.
	Orders []*Order
}

// Node is a supervisor.
type Node struct {
	// Name is unique in the whole tree, see CheckName. The root's is that of the project.
	Name     string
	Strategy supervisor.Strategy
	// Limit is that over the children together; Escalating(5, 60 s) if zero.
	Limit supervisor.Limit
	// Restart and Backoff are those of the supervisor as a child of its parent.
	Restart      supervisor.Restart
	Backoff      supervisor.Backoff
	AutoShutdown supervisor.AutoShutdown
	// Significant nodes and agents take part in their parent's AutoShutdown.
	Significant bool
	// Suspended: nothing below it is to run. The root's is that of the project.
	Suspended bool
	// DependsOn are the names of agents and supervisors that must be ready
	// before anything in it is started, and that are stopped after it. See StartOrder.
	DependsOn []string
	// Bare: the root may have no agent at all, as there is something else to do.
	Bare bool
	// InOrder: its children are stopped one after the other, last one first. Those
	// of a RestForOne supervisor are in any case.
	InOrder bool
	// Children are in start order.
	Children []Child
	// Program is the path of a Sage program that runs below the root, after its
	// children: a file, or the directory of a project. The loader of the language
	// makes children of it; agents that it names are then where it says.
	Program string
	// Template is what the children of a pool are instances of: the agent as it
	// was declared, with its Pool. It is nil for a supervisor that is no pool.
	Template *Agent
	// Retired: it is a pool that is no longer in the file, or a supervisor that
	// exists for such a pool alone. See Retain.
	Retired bool
}

// StopsInOrder reports whether its children are stopped one after the other, last
// one first, and not all at once.
func (n *Node) StopsInOrder() bool { return n.InOrder || n.Strategy == supervisor.RestForOne }

// Agent is a leaf: an OS process, or a function of this process, that is started, watched
// and stopped.
type Agent struct {
	// Name is unique in the whole tree, see CheckName.
	Name string
	// Command is the argument vector. Command[0] with a slash is relative to
	// Dir, without one it is looked up in the PATH of the agent.
	Command []string
	// Dir is the absolute path of the working directory.
	Dir string
	// Run is called instead of a command if its runtime is InProcess; it returns
	// soon after its context has ended. Revision identifies what Run does, and
	// changes with it.
	Run      func(context.Context) error `json:"-"`
	Revision string
	// Env is what is added to the short list that every agent gets.
	Env map[string]string
	// EnvFiles are the absolute paths of files with more of it, which are read at
	// each start; later ones win, and Env wins over all.
	EnvFiles []string
	// Files are the absolute paths of files that it reads when it starts: a change of
	// their content restarts it.
	Files []string
	// Stdin is the absolute path of a file; the null device, or the terminal
	// where there is one, if empty.
	Stdin string
	// Runtime is where it runs.
	Runtime Runtime
	// Terminal gives it a pseudo terminal instead of pipes. Assemble sets it
	// where the runtime is Tmux, which cannot do without.
	Terminal bool
	Limits   Limits
	// User is the name or number of the user that it, and the commands that
	// belong to it, run as; that of the daemon if empty. Group is the group
	// instead of the user's own. Linux only, and only where the daemon may.
	User, Group string
	// NoNewPrivileges keeps it, and the commands that belong to it, from gaining
	// privileges by what they execute. Linux only.
	NoNewPrivileges bool
	// Logs is how much of its output is kept, from its next incarnation on; what
	// is zero is as Tree.Logs says.
	Logs Logs

	Restart supervisor.Restart
	Backoff supervisor.Backoff
	// Limit is the agent's own; its restarts count in its supervisor if zero.
	Limit supervisor.Limit
	// DefaultBackoff and DefaultLimit report that the file states none, and that
	// Backoff and Limit are its defaults. They do not hold in a Sage program.
	DefaultBackoff, DefaultLimit bool
	Significant                  bool
	// Suspended: it is not to run. It is, too, if something above it is.
	Suspended bool
	DependsOn []string // as Node.DependsOn
	Shutdown  Shutdown
	Ready     Ready
	Hooks     Hooks
	// Beliefs are those that it may have; any names and values if none is
	// declared, which then persist. They are read when an incarnation begins.
	Beliefs []Belief
	// Notify gives it a socket to report its status to, as systemd services do
	// (sd_notify). Assemble sets it where Ready.Notify or Watchdog asks for it.
	Notify bool
	// Watchdog is how long it may be silent on that before it has failed; 0: for ever.
	Watchdog time.Duration
	// HeartbeatTimeout is how long it may be silent once it is ready,
	// ProgressTimeout how long it may claim the same progress. Zero: for ever.
	HeartbeatTimeout time.Duration
	ProgressTimeout  time.Duration
	// ProcessNames are the programs that the agent consists of: if none of them is
	// running in its process or in what belongs to it, it has ended, although its
	// process lives. None: it lives as long as its process.
	ProcessNames []string
	// IdleTimeout is how long it may neither read nor write anything, on its
	// terminal or its pipes, once it is ready. Zero: for ever.
	IdleTimeout time.Duration
	Nudge       Nudge
	// Aide makes it an agent that runs when its triggers fire, by what its
	// Aidefile says; it has no Command then. Restart, Backoff and Limit are
	// those of its policy.
	Aide *aidefile.Agent
	// Pool makes a pool of it. It is nil in a tree but for Node.Template.
	Pool *Pool
	// Instance says of which pool it is an instance; zero if of none.
	Instance Instance
}

// Nudge is the way to remind an agent that it sends no heartbeat or that there is work for
// it. At most one field is set; with none, the agent is not reminded.
type Nudge struct {
	Type    bool     // a fixed line and Enter are typed into its terminal
	Signal  string   // as in Shutdown
	Command []string // argument vector, run in addition to the agent
}

// Exists reports whether there is a way.
func (n Nudge) Exists() bool { return n.Type || n.Signal != "" || len(n.Command) > 0 }

// Shutdown is the way to ask an agent to stop.
type Shutdown struct {
	// Signal is sent to the whole process group: a name that ParseSignal
	// returns; DefaultSignal if empty. KILL ends it at once.
	Signal string
	// Grace is the time between Signal and SIGKILL; supervisor.DefaultShutdown if zero.
	Grace time.Duration
}

// Ready is the condition under which an agent has started. What depends on it waits for
// that, and so do siblings that come later in a supervisor of the file. At most one of the
// conditions is set; with none, an agent is ready when its process exists.
type Ready struct {
	Log    string   // a regular expression (RE2) that a line of the output matches
	TCP    string   // host:port that accepts a connection
	HTTP   string   // URL that answers with a status from 200 to 299; redirects are not followed
	Exec   []string // argument vector of a command that exits with 0, run like the agent's
	Notify bool     // the agent says so itself (sd_notify)
	// Timeout is how long it may take; DefaultReadyTimeout if zero. An agent
	// that is not ready by then has failed.
	Timeout time.Duration
}

// Stated reports whether there is a condition. Without one an agent is ready as
// soon as its process exists.
func (r Ready) Stated() bool {
	return r.Log != "" || r.TCP != "" || r.HTTP != "" || len(r.Exec) > 0 || r.Notify
}

// Defaults that Assemble fills in.
const (
	DefaultSignal       = "TERM"
	DefaultReadyTimeout = 30 * time.Second
	// MinWatchdog is the shortest Agent.Watchdog.
	MinWatchdog = time.Second
)

// Child is a node of the tree below the root; exactly one field is set.
type Child struct {
	Node  *Node
	Agent *Agent
}

// Declared returns the agent, of a pool what its instances are made of; nil for
// another supervisor.
func (c Child) Declared() *Agent {
	if c.Node != nil {
		return c.Node.Template
	}
	return c.Agent
}

// Name returns that of the node or agent.
func (c Child) Name() string {
	if c.Node != nil {
		return c.Node.Name
	}
	return c.Agent.Name
}

// DependsOn returns that of the node or agent, or of the agent of a pool.
func (c Child) DependsOn() []string {
	switch {
	case c.Node == nil:
		return c.Agent.DependsOn
	case c.Node.Template != nil:
		return c.Node.Template.DependsOn
	}
	return c.Node.DependsOn
}

// All yields everything below the root with its path, parents before their
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
