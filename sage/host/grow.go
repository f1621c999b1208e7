package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/supervisor"
)

// InvalidError: a program has errors. Its text shows them all.
type InvalidError struct {
	Name        string // of its first file
	Diagnostics []diag.Diagnostic
}

func (e *InvalidError) Error() string {
	var b strings.Builder
	_ = diag.Write(&b, e.Diagnostics, false)
	return b.String() + e.Name + " is not valid"
}

// Traced makes what a supervisor of the program does a part of its trace.
func (g *Grown) Traced(e supervisor.Event) { g.instance.Traced(e) }

// GrowOptions are what the agents of a program that becomes a part of a tree
// need of whoever keeps the tree.
type GrowOptions struct {
	Beliefs eval.Beliefs
	Ready   func(ctx context.Context, path string, incarnation uint64) // see eval.Options
	Say     func(path string, toErr bool, line string)
	Trace   io.Writer // see eval.Options
	Logger  *slog.Logger
	// Agents are those that the program can have as children, by name.
	Agents map[string]*spec.Agent
}

// Grown is a program as a part of a desired tree.
type Grown struct {
	// Node is what it runs. An agent that is run alone is the only child of a
	// supervisor of its name, which fails if the agent does.
	Node *spec.Node
	// Warnings are of the checker.
	Warnings []diag.Diagnostic
	// Files are the absolute paths of what the program is made of, Revision names
	// their contents. Of a program that is refused they are what could be read.
	Files    []string
	Revision string
	instance *eval.Instance
}

// Close lets go of what the tools of the program have opened. None of its
// agents may live any more.
func (g *Grown) Close() error {
	if g.instance == nil {
		return nil
	}
	return g.instance.Close()
}

// Grow checks a program and makes nodes and agents of it. It fails with an
// *InvalidError if it has errors. The result is never nil: who waits for the
// files to be mended has to know which they are.
func Grow(p *load.Program, o GrowOptions) (*Grown, error) {
	grown := &Grown{Files: []string{p.Entry}}
	info, diagnostics, err := p.Check(nil)
	if err != nil {
		return grown, err
	}
	grown.Files, grown.Revision = p.Files(info), revisionOf(p, info)
	if diag.HasErrors(diagnostics) {
		return grown, &InvalidError{p.Name(p.Entry), diagnostics}
	}
	if info.Entry == nil {
		return grown, fmt.Errorf("%s: %w", p.Name(p.Entry), eval.ErrNothingToRun)
	}
	program, err := eval.Load(info)
	if err != nil {
		return grown, err
	}
	around, err := surroundings(p)
	if err != nil {
		return grown, err
	}
	around.Beliefs, around.Ready, around.Say, around.Log = o.Beliefs, o.Ready, o.Say, o.Logger
	if traces(p) {
		around.Trace = o.Trace
	}
	g := grower{agents: o.Agents, taken: map[string]bool{}, revision: grown.Revision}
	around.Process = g.process
	instance := program.New(around)
	tree, err := instance.Spec()
	if err != nil {
		return grown, errors.Join(err, instance.Close())
	}
	top := info.Entry.Supervisor
	if top == nil {
		top = &check.Supervisor{Children: []*check.Child{{Agent: info.Entry.Agent}}}
	}
	grown.Node, grown.Warnings, grown.instance = g.node(&tree, top), diagnostics, instance
	return grown, nil
}

// grower makes nodes of the specification that a program has as a tree of its
// own, so that there is one place that says what a program means.
type grower struct {
	agents   map[string]*spec.Agent
	taken    map[string]bool
	revision string
}

// process is a child in quotes. What is returned is only a place for it.
func (g *grower) process(name string) (supervisor.ChildSpec, error) {
	switch {
	case g.agents[name] == nil:
		return supervisor.ChildSpec{}, fmt.Errorf("there is no agent %s in the project's file", spec.Quote(name))
	case g.taken[name]:
		return supervisor.ChildSpec{}, fmt.Errorf("the agent %s is a child already, expected one place for each",
			spec.Quote(name))
	}
	g.taken[name] = true
	return supervisor.ChildSpec{ID: name}, nil
}

// node makes a node of the specification of a supervisor, which has its
// children in the order of the program.
func (g *grower) node(s *supervisor.Spec, of *check.Supervisor) *spec.Node {
	n := &spec.Node{Name: s.Name, Strategy: s.Strategy, Limit: s.Limit, AutoShutdown: s.AutoShutdown, InOrder: true}
	for i, c := range s.Children {
		switch declared := of.Children[i]; {
		case c.Supervisor != nil:
			below := g.node(c.Supervisor, declared.Supervisor)
			below.Name, below.Restart = c.ID, c.Restart
			n.Children = append(n.Children, spec.Child{Node: below})
		case c.Run == nil:
			a := *g.agents[c.ID]
			a.Restart = c.Restart
			n.Children = append(n.Children, spec.Child{Agent: &a})
		default:
			n.Children = append(n.Children, spec.Child{Agent: &spec.Agent{
				Name: c.ID, Runtime: spec.InProcess, Run: c.Run, Revision: g.revision, Restart: c.Restart,
				Beliefs:  persistentOf(declared.Agent),
				Ready:    spec.Ready{Notify: c.WaitReady},
				Shutdown: spec.Shutdown{Signal: spec.DefaultSignal, Grace: supervisor.DefaultShutdown},
			}})
		}
	}
	return n
}

// persistentOf are the beliefs of an agent that are kept.
func persistentOf(a *check.Agent) (beliefs []spec.Belief) {
	for _, f := range a.Decl.Fields() {
		if f.Persistent {
			beliefs = append(beliefs, spec.Belief{Name: f.Name.Name, Persistent: true})
		}
	}
	return beliefs
}

// revisionOf names the text of a program, and whom it asks: all that an agent
// does may follow from any of it.
func revisionOf(p *load.Program, info *check.Info) string {
	sum := sha256.New()
	if p.Grove != nil {
		fmt.Fprintf(sum, "%q %v %v\n", p.Grove.Divine.Command, p.Grove.Divine.Format, p.Grove.Divine.Timeout)
	}
	for _, m := range info.Modules {
		fmt.Fprintf(sum, "%d %s %d\n%s\n", len(m.File.Name), m.File.Name, len(m.File.Text), m.File.Text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
