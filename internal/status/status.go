// Package status provides the read model of a fleet: what each node does, why, and what
// needs attention, as ps, tree, explain, status and top show it.
//
// A Model joins what is declared with what is known of it. With a daemon that is the state
// of its supervisors, which are asked when somebody looks: their events alone would not tell
// what is starting, nor what a limit counts at this moment. Without a daemon it is what the
// last one has recorded, and what the slots of the agents show; see Recorded.
package status

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/supervisor"
)

// Fleet is the declaration at one moment. It must not be changed.
type Fleet struct {
	Root     *spec.Node
	RootPath string
	Agents   map[string]*spec.Agent // by path
	Nodes    map[string]*spec.Node  // by path, with the root
	After    map[string]string      // by path: the sibling that its supervisor starts before it
}

// Options are the parts of a project that a Model joins.
type Options struct {
	Host string // name of the machine
	// HostOf returns the machine of an agent, on which it runs or ran last; nil: all are on Host.
	HostOf func(path string) string
	Logger *slog.Logger
	Fleet  func() Fleet
	// Resolve returns the whole path of the node that a caller means. Its error names
	// what there is instead.
	Resolve func(path string) (string, error)
	// SuspendedBy returns why a node may not start although nothing is wrong with it, such
	// as that the file suspends it; "" if it may.
	SuspendedBy func(path string) string
	Questions   interface {
		Pending(agent string) (oldest question.Question, open int)
	}
	Claims interface {
		List(ctx context.Context, path string) []api.Claim
	}
	Log interface {
		Last(ctx context.Context, n int, match func(event.Event) bool) ([]event.Event, uint64, error)
	}
	// Output returns the last lines that the slot of an agent keeps.
	Output func(path string, lines int) ([]string, error)

	// The parts of a status that are not about nodes.
	Suspended func() string // why the whole project does not run; "" if it does
	Config    func() Config
	Store     func() Store
	Machines  func() []nodes.Summary // the nodes of the fleet on several machines; none if there is none
	Inbox     func() Inbox
	Orders    func() *order.Counts // nil if there are none
	Quotas    func() []quota.Info  // those that agents wait for
	Budgets   func() []budget.Info
	// Account returns which account an agent uses, in a line; empty if it has none that is declared.
	Account func(path string) string
	// Pipeline returns what there is to say of a worker of a pipeline, one fact in each line. The incarnation is 0 if
	// it does not run.
	Pipeline func(path string, incarnation uint64) []string
	Gates    func() []task.Gate // what blocked tasks wait for
	// TaskPools returns the pools whose tasks are paused, and TasksOf why an agent gets no tasks, in a
	// line; empty if it can.
	TaskPools func() []pools.Pool
	TasksOf   func(path string) string
}

// Model answers what a fleet does. Its methods may be called at any time.
type Model struct {
	opts   Options
	source source
}

// source provides the state of nodes to a Model.
type source interface {
	// nodes lists a node of the fleet and what is below it, with the states of their own.
	nodes(path string) ([]Node, error)
	// explain says why a node is as it is, and what comes next.
	explain(ctx context.Context, x *Explanation) error
	// output returns the last lines of an agent.
	output(ctx context.Context, path string, lines int) ([]string, error)
	controller() Controller
	serving() bool // whether a daemon runs
}

const (
	kindAgent      = "agent"
	kindSupervisor = "supervisor"
)

// historyLength is the number of events and lines in an explanation.
const historyLength = 10

// Nodes lists the tree below a path, parents first and siblings in start order. The empty
// path is everything.
func (m *Model) Nodes(_ context.Context, path string) ([]Node, error) {
	path, err := m.opts.Resolve(path)
	if err != nil {
		return nil, err
	}
	nodes, err := m.source.nodes(path)
	deriveStates(nodes)
	m.notePaused(nodes)
	return nodes, err
}

// notePaused says of pools, and of agents in no pool, that their tasks are paused.
func (m *Model) notePaused(nodes []Node) {
	paused := m.opts.TaskPools()
	if len(paused) == 0 {
		return
	}
	f := m.opts.Fleet()
	for i := range nodes {
		n := &nodes[i]
		a := f.Agents[n.Path]
		if pool := f.Nodes[n.Path]; pool != nil {
			a = pool.Template
		}
		if a == nil || a.Instance.Pool != "" {
			continue
		}
		served := a.TaskPools(n.Path)
		if at := slices.IndexFunc(paused, func(p pools.Pool) bool { return slices.Contains(served, p.Name) }); at >= 0 {
			n.Tasks = "its tasks are paused"
			if paused[at].State == pools.Probes {
				n.Tasks = "one of its tasks is tried"
			}
		}
	}
}

// Explain says why a node is as it is.
func (m *Model) Explain(ctx context.Context, path string) (Explanation, error) {
	nodes, err := m.Nodes(ctx, path)
	if err != nil {
		return Explanation{}, err
	}
	n := nodes[0]
	x := Explanation{Node: n, Rule: n.Reason, History: m.history(ctx, n.Path), Tail: []string{}, Evidence: []string{},
		Claims: []api.Claim{}}
	if err := m.source.explain(ctx, &x); err != nil {
		return x, err
	}
	if n.Kind == kindAgent {
		running := n.Incarnation
		if n.PID == 0 {
			running = 0
		}
		x.Evidence = append(x.Evidence, m.opts.Pipeline(n.Path, running)...)
		x.Claims = m.opts.Claims.List(ctx, n.Path)
		if tail, err := m.source.output(ctx, n.Path, historyLength); err == nil && tail != nil {
			x.Tail = tail
		}
	}
	return x, nil
}

// history returns the last events of a node itself.
func (m *Model) history(ctx context.Context, path string) []event.Event {
	last, _, err := m.opts.Log.Last(ctx, historyLength, func(e event.Event) bool { return e.Path == path })
	if err != nil {
		m.opts.Logger.Warn("cannot read the history of a node", "path", path, "error", err)
	}
	return slices.Concat([]event.Event{}, last)
}

// Status returns the daemon and its fleet in short.
func (m *Model) Status(ctx context.Context) (Status, error) {
	nodes, err := m.Nodes(ctx, "")
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Project: m.opts.Fleet().RootPath, Controller: m.source.controller(), Summary: Summarize(nodes),
		Suspended: m.opts.Suspended(), Inbox: m.opts.Inbox(), Store: m.opts.Store(), Config: m.opts.Config(),
		Orders: m.opts.Orders(), Gates: m.opts.Gates(), Nodes: m.opts.Machines(),
	}
	for _, n := range nodes {
		if n.Pool != nil {
			s.Pools = append(s.Pools, pool.At{Path: n.Path, Pool: *n.Pool})
		}
		if n.Kind == kindAgent && waitsForPerson(n) {
			s.NeedsInput++
		}
	}
	waitsFor := waits{m.opts.Quotas(), m.opts.Budgets(), m.opts.TaskPools()}
	s.Attention = attention(nodes, s.Config, waitsFor, m.source.serving(), m.lastLine)
	return s, nil
}

// Summarize counts the agents by state. Every state of a supervisor's child is there.
func Summarize(nodes []Node) map[string]int {
	counts := make(map[string]int)
	for st := supervisor.Stopped; st <= supervisor.Suspended; st++ {
		counts[st.String()] = 0
	}
	for _, n := range nodes {
		switch {
		case n.Kind != kindAgent:
		case n.Loop == CrashLoop:
			counts[crashLoop]++
		case n.Aide != nil && n.State == supervisor.Stopped.String():
			counts[n.Aide.State]++ // idle or done: it waits for its trigger
		default:
			counts[n.State]++
		}
	}
	return counts
}

// lastLine returns the last line with text that an agent wrote, empty for a supervisor.
func (m *Model) lastLine(path string) string {
	lines, _ := m.opts.Output(path, 5) // the last ones may be empty
	for _, line := range slices.Backward(lines) {
		if text := strings.TrimSpace(plaintext.Line(line)); text != "" {
			return text
		}
	}
	return ""
}

// parent returns the path of the supervisor of a node, empty for the root.
func parent(path string) string {
	above, _ := cut(path)
	return above
}

// cut splits a path into that of the supervisor and the ID of the child there.
func cut(path string) (above, id string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
