package status

import (
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile/trigger"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// Node is a supervisor or an agent.
type Node struct {
	_ struct{} `doc:"A supervisor or an agent."`

	Path            string        `json:"path" doc:"Where it is in the tree, such as shop/backend/api."`
	Kind            string        `json:"kind" enum:"supervisor,agent" doc:"What it is."`
	Strategy        string        `json:"strategy,omitempty" enum:"one_for_one,one_for_all,rest_for_one,simple_one_for_one" doc:"Of a supervisor: what it restarts when a child fails."`
	Runtime         string        `json:"runtime,omitempty" doc:"Of an agent: what it runs in: proc, tmux, or program for the process of a Sage program."`
	Terminal        bool          `json:"terminal,omitempty" doc:"Of an agent: whether it has a terminal, which /v1/attach connects with."`
	State           string        `json:"state" doc:"What it does at the moment: stopped, starting, running, stopping, restarting, waiting, quarantined, given_up, paused, suspended; of a supervisor also degraded: something in it needs a person. Readers must expect others."`
	Reason          string        `json:"reason" doc:"The rule behind its state; empty where it simply runs."`
	Tasks           string        `json:"tasks,omitempty" doc:"What keeps an agent that runs, or a pool, from claiming tasks: its tasks are paused, or one of them is tried first; empty where nothing does."`
	WaitsFor        string        `json:"waits_for,omitempty" doc:"The node that has to be ready, or gone, before it starts."`
	PID             int           `json:"pid,omitempty" doc:"Process id of an agent that runs."`
	Host            string        `json:"node" doc:"Name of the machine on which it runs or ran last."`
	Incarnation     uint64        `json:"incarnation" minimum:"0" doc:"Number of its last start, from 1; 0 before the first."`
	Restarts        int           `json:"restarts" minimum:"0" doc:"Restarts so far."`
	Loop            Loop          `json:"loop,omitempty" enum:"crash,clean" doc:"Of an agent that has ended soon after each of its last three starts or more: how it ended last. Not there if it has not."`
	Restart         string        `json:"restart,omitempty" enum:"always,on-failure,never" doc:"When it is restarted. Not of the root."`
	InWindow        int           `json:"in_window" minimum:"0" doc:"What its limit counts at this moment. The limit of a supervisor is what its children share or, if they share none, what counts its own starts."`
	LimitMax        int           `json:"limit_max" minimum:"-1" doc:"How many its limit allows; -1 if it has none of its own."`
	LimitCounts     string        `json:"limit_counts,omitempty" enum:"starts,restarts,consecutive restarts,failures" doc:"What its limit counts."`
	LimitWindow     float64       `json:"limit_window_seconds,omitempty" doc:"The time in which they count; without it they count for ever."`
	Limit           string        `json:"limit" doc:"Its own limit, in words: of a supervisor the one that its children share, of an agent the one that it does not share. Empty if it has none."`
	LimitAction     string        `json:"limit_action,omitempty" enum:"escalate,quarantine,give_up,pause" doc:"What is done when its limit is reached."`
	LimitOf         string        `json:"limit_of,omitempty" doc:"The path of the supervisor whose limit counts, where a node has none of its own."`
	StartedAt       *time.Time    `json:"started_at,omitempty" doc:"When the running incarnation started."`
	Uptime          float64       `json:"uptime_seconds,omitempty" minimum:"0" doc:"How long it has been running."`
	NextAt          *time.Time    `json:"next_at,omitempty" doc:"When it is tried again."`
	LastExit        string        `json:"last_exit,omitempty" doc:"How the incarnation before ended."`
	ExitKind        string        `json:"exit_kind,omitempty" doc:"The kind of that: normal, shutdown, failure, panic, killed, lost. Readers must expect others."`
	ExitError       string        `json:"exit_error,omitempty" doc:"What went wrong, or what else is known of that end; not there if nothing is."`
	Failed          bool          `json:"failed,omitempty" doc:"Whether that was a failure; not there if it was not."`
	TooOftenBy      string        `json:"too_often_by,omitempty" doc:"Name of the order that has started it too often, so that its limit holds it."`
	StatusText      string        `json:"status_text,omitempty" doc:"What an agent that runs says of itself: one line of plain text, 256 bytes at most. It is the agent's claim."`
	Vitals          *health.Info  `json:"vitals,omitempty"`
	Drain           *drain.Info   `json:"drain,omitempty"`
	Aide            *trigger.Info `json:"aide,omitempty"`
	Pipeline        bool          `json:"pipeline,omitempty" doc:"Whether it is a worker of a pipeline, which ends after each attempt and starts again for the next; not there if not."`
	User            string        `json:"user,omitempty" doc:"The user that an agent runs as, by name or number; not there if it is the daemon's."`
	NoNewPrivileges bool          `json:"no_new_privileges,omitempty" doc:"Whether an agent and what it starts are kept from gaining privileges; not there if not."`
	ReadWritePaths  []string      `json:"read_write_paths,omitzero" doc:"The only paths that an agent may write to; one with - in front may be missing. Not there if it may write wherever its user may."`
	ReadOnlyPaths   []string      `json:"read_only_paths,omitempty" doc:"What is not writable below read_write_paths."`
	StoppedByHand   bool          `json:"stopped_by_hand,omitempty" doc:"A person has stopped or drained it: only a start brings it back, not a resume."`
	NeedsInput      *NeedsInput   `json:"needs_input,omitempty"`
	Pool            *pool.Info    `json:"pool,omitempty"`

	Placement *spec.Placement `json:"placement,omitempty"`
}

// Loop tells how an agent ends that is restarted again and again: LoopEnds times
// in a row it has lived only for a short time.
type Loop string

// The values of Loop; "" where there is none.
const (
	CrashLoop Loop = "crash" // the last time it failed
	CleanLoop Loop = "clean" // the last time it ended with exit code 0
)

// LoopEnds is the number of early exits in a row that make a crash loop.
const LoopEnds = 3

// NeedsInput is the open question of a node.
type NeedsInput struct {
	_ struct{} `doc:"What an agent waits for a person to say. It has the state of its supervisor all the same."`

	ID   string    `json:"id" doc:"Its oldest open question, such as q-7."`
	Text string    `json:"text" doc:"The beginning of that, in a line."`
	At   time.Time `json:"at" doc:"When it was asked."`
	Open int       `json:"open" minimum:"1" doc:"How many open questions it has."`
}

// Explanation says why a node is as it is.
type Explanation struct {
	_ struct{} `doc:"Why a node is as it is."`

	Node     Node          `json:"node"`
	Rule     string        `json:"rule" doc:"The rule that decided."`
	Evidence []string      `json:"evidence" doc:"What it was decided on, one fact each."`
	Next     string        `json:"next" doc:"What happens next, and when."`
	Hint     string        `json:"hint,omitempty" doc:"What a person can do."`
	History  []event.Event `json:"history" doc:"Its last events, oldest first."`
	Tail     []string      `json:"tail" doc:"Its last output, without escape sequences."`
	Claims   []api.Claim   `json:"claims" doc:"What it has said of how its work ended, oldest first."`
	Patrol   *Standing     `json:"patrol,omitempty"`
}

// Standing is the view of reconciliation on a node.
type Standing struct {
	_ struct{} `doc:"What the patrol makes of a node: what is wanted, what is, and what a round would do about it now."`

	Wanted    string     `json:"wanted" doc:"run, suspend or finish. Readers must expect others."`
	Why       string     `json:"why,omitempty" doc:"Why it is not to run."`
	Observed  string     `json:"observed" doc:"unknown, down, running, kept (its supervisor takes care of it) or done (stopped by hand, or ended for good)."`
	Ready     bool       `json:"ready" doc:"What depends on it may start."`
	Known     bool       `json:"known" doc:"It runs, and with what it was started is known."`
	Drifted   []string   `json:"drifted" doc:"Fields in which it differs from what is declared now."`
	WaitsFor  []string   `json:"waits_for" doc:"Nodes that have to be ready, or gone, before it starts."`
	HeldUntil *time.Time `json:"held_until,omitempty" doc:"When its limit has room for another start."`
	IdleLeft  *float64   `json:"idle_left,omitempty" doc:"How many seconds it may still neither read nor write; not there if that does not count."`
	Busy      bool       `json:"busy" doc:"Something that was planned is being done."`
	Action    string     `json:"action,omitempty" doc:"What a round would do now; not there if nothing."`
	Reason    string     `json:"reason,omitempty" doc:"Why it would do that."`
	NextRound *time.Time `json:"next_round,omitempty" doc:"When the next round is made if nothing happens before."`
}

// Status is the daemon and its fleet in short.
type Status struct {
	_ struct{} `doc:"The daemon and its fleet in short."`

	Project    string          `json:"project" doc:"Name of the project."`
	Controller Controller      `json:"controller"`
	Summary    map[string]int  `json:"summary" doc:"How many agents there are in each state; every state is there."`
	Nodes      []nodes.Summary `json:"nodes,omitempty" doc:"The machines of the fleet; not there if there is only one."`
	Suspended  string          `json:"suspended,omitempty" doc:"Why nothing runs, where the project is suspended."`
	NeedsInput int             `json:"needs_input" minimum:"0" doc:"How many agents wait for an answer of a person; the summary counts them by their states."`
	Attention  []Attention     `json:"attention" doc:"What needs a person."`
	Inbox      Inbox           `json:"inbox"`
	Store      Store           `json:"store"`
	Config     Config          `json:"config"`
	Pools      []pool.At       `json:"pools,omitempty" doc:"All pools; not there if there is none."`
	Orders     *order.Counts   `json:"orders,omitempty"`
	Gates      []task.Gate     `json:"gates,omitempty" doc:"What blocked tasks wait for; not there if none waits."`
}

// Attention names something that is not well or needs a person.
type Attention struct {
	_ struct{} `doc:"Something that needs a person."`

	Path       string     `json:"path" doc:"The path of an agent or supervisor; of a file that was rejected, its path."`
	State      string     `json:"state" doc:"The state of the node, or what matters more. crash_loop: an agent that failed soon after each of its last starts; restart_loop: one that ended with exit code 0 soon after each; failing: one that runs and has failed again and again; unresponsive: one that runs and is silent for longer than it may be; needs_input: one that waits for an answer; rejected: a version of the file that is not in force."`
	Reason     string     `json:"reason" doc:"Why, in a line."`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"When it continues on its own."`
	Command    string     `json:"command" doc:"The command that helps."`
	LastOutput string     `json:"last_output,omitempty" doc:"The last line that an agent wrote, where it is down because it fails."`
}

// States of an Attention about what is well, and needs a person all the same.
const (
	Rejected    = "rejected"
	NeedsAnswer = "needs_input"
)

// Unwell reports whether something does not run as it should, rather than wait for a person.
func (a Attention) Unwell() bool { return a.State != Rejected && a.State != NeedsAnswer }

// Controller is the daemon itself.
type Controller struct {
	_ struct{} `doc:"The daemon itself."`

	PID       int       `json:"pid" doc:"Its process id; 0 where no daemon runs, which only the command shows."`
	Host      string    `json:"node" doc:"Name of the machine."`
	Version   string    `json:"version" doc:"Version of the program."`
	StartedAt time.Time `json:"started_at" doc:"When it started."`
	Uptime    float64   `json:"uptime_seconds" minimum:"0" doc:"How long it has been running."`

	ReconciledAt time.Time `json:"reconciled_at,omitzero" doc:"When the last reconciliation pass has ended; missing before the first."`
}

// Inbox counts what waits for people.
type Inbox struct {
	_ struct{} `doc:"How much waits for people."`

	Questions int `json:"questions" minimum:"0" doc:"Open questions."`
	Mail      int `json:"mail" minimum:"0" doc:"Unread messages."`
	Parked    int `json:"parked" minimum:"0" doc:"Tasks whose claims have failed too often."`
}

// Store reports whether state is being saved.
type Store struct {
	_ struct{} `doc:"Whether state is being kept."`

	Kind  string `json:"kind" doc:"Such as memory or sqlite."`
	Path  string `json:"path" doc:"Where it is."`
	OK    bool   `json:"ok" doc:"Whether it takes writes."`
	Error string `json:"error,omitempty" doc:"Why it does not."`

	Writes *Writes `json:"writes,omitempty"`
}

// Writes tells how much is written to a store of several machines.
type Writes struct {
	_ struct{} `schema:"StoreWrites" doc:"How much the controller writes to a store of several machines; not there on one machine."`

	PerSecond float64 `json:"per_second" minimum:"0" doc:"Transactions in a second, as the mean of the last minute."`
	AtOnce    int     `json:"at_once" minimum:"1" doc:"How many may be under way at the same time; more wait."`
}

// WritesOf returns the writes of a store.
func WritesOf(s store.Store) *Writes {
	w := store.WritesOf(s)
	return &Writes{PerSecond: w.PerSecond, AtOnce: max(1, w.AtOnce)}
}

// Config is the file in force.
type Config struct {
	_ struct{} `doc:"The file in force."`

	Path      string    `json:"path" doc:"Where it is."`
	Revision  string    `json:"revision" doc:"A hash of its content."`
	LoadedAt  time.Time `json:"loaded_at" doc:"When it was read."`
	LastError string    `json:"last_error,omitempty" doc:"What is wrong with a later version of it, which was refused."`
}
