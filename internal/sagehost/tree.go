package sagehost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/run"
	"github.com/coppice-dev/coppice/supervisor"
)

// InvalidError means that a program has errors.
type InvalidError struct {
	Name        string // of its first file
	Diagnostics []diag.Diagnostic
}

// Error shows all diagnostics.
func (e *InvalidError) Error() string {
	var b strings.Builder
	_ = diag.Write(&b, e.Diagnostics, false)
	return b.String() + e.Name + " is not valid"
}

// part is a program as a part of a desired tree.
type part struct {
	// node is the topmost node. An agent that runs alone is the only child of a supervisor with its
	// name, which fails if the agent does.
	node     *spec.Node
	process  *spec.Program // of all its agents; the caller sets it
	loaded   *load.Program
	info     *check.Info
	program  *run.Program
	warnings []diag.Diagnostic // of the checker
	sources  Sources
}

// build checks a program and converts it to nodes and agents. agents are those that it can have as
// children, by name. The error is an *InvalidError if the program has errors. The result is never nil:
// its sources are valid also with an error.
func build(p *load.Program, agents map[string]*spec.Agent, o run.Options) (*part, error) {
	built := &part{sources: Sources{[]string{p.Entry}, []string{filepath.Dir(p.Entry)}, []string{""}}}
	info, diagnostics, err := p.Check(nil)
	if err != nil {
		return built, err
	}
	built.sources = sourcesOf(p, info)
	if diag.HasErrors(diagnostics) {
		return built, &InvalidError{p.Name(p.Entry), diagnostics}
	}
	if info.Entry == nil {
		return built, fmt.Errorf("%s: %w", p.Name(p.Entry), eval.ErrNothingToRun)
	}
	b := builder{
		agents: agents, taken: map[string]bool{}, revision: built.sources.Revisions[0], process: new(spec.Program),
	}
	o.Child = b.child
	program, err := run.Open(p, info, o)
	if err != nil {
		return built, err
	}
	tree, err := program.Tree()
	if err != nil {
		return built, errors.Join(err, program.Close())
	}
	top := info.Entry.Supervisor
	if top == nil {
		top = &check.Supervisor{Children: []*check.Child{{Agent: info.Entry.Agent}}}
	}
	built.node, built.process, built.warnings = b.node(&tree, top), b.process, diagnostics
	built.loaded, built.info, built.program = p, info, program
	return built, nil
}

// sourcesOf returns the files of a checked program. The revision covers their text and the model that
// they use, since the behavior of every agent may depend on any of it.
func sourcesOf(p *load.Program, info *check.Info) Sources {
	s := Sources{Files: p.Files(info)}
	for _, file := range s.Files {
		s.Dirs = append(s.Dirs, filepath.Dir(file))
	}
	sum := sha256.New()
	if p.Settings != nil {
		d := p.Settings.Divine
		fmt.Fprintf(sum, "%q %v %v\n", d.Command, d.Format, d.Timeout)
	}
	for i, m := range info.Modules {
		name := s.Files[i] // not as in diagnostics, which depends on the working directory
		if rel, err := filepath.Rel(filepath.Dir(s.Files[0]), name); err == nil {
			name = rel // the same on another machine
		}
		fmt.Fprintf(sum, "%d %s %d\n%s\n", len(name), name, len(m.File.Text), m.File.Text)
	}
	s.Revisions = []string{hex.EncodeToString(sum.Sum(nil))}
	return s
}

// builder converts the supervisors of a program to nodes. It starts from the supervisors that the
// program has when it runs on its own, so that a program means the same in both cases.
type builder struct {
	agents   map[string]*spec.Agent
	taken    map[string]bool
	revision string
	process  *spec.Program
}

// child returns a placeholder for a child in quotes, which node replaces.
func (b *builder) child(name string) (supervisor.ChildSpec, error) {
	switch {
	case b.agents[name] == nil:
		return supervisor.ChildSpec{}, fmt.Errorf("there is no agent %s in the project's file", spec.Quote(name))
	case b.taken[name]:
		return supervisor.ChildSpec{}, fmt.Errorf("the agent %s is already a child of another supervisor",
			spec.Quote(name))
	}
	b.taken[name] = true
	return supervisor.ChildSpec{ID: name}, nil
}

// node converts a supervisor to a node. The children keep the order of the program.
func (b *builder) node(s *supervisor.Spec, of *check.Supervisor) *spec.Node {
	n := &spec.Node{Name: s.Name, Strategy: s.Strategy, Limit: s.Limit, AutoShutdown: s.AutoShutdown, InOrder: true}
	for i, c := range s.Children {
		switch declared := of.Children[i]; {
		case c.Supervisor != nil:
			below := b.node(c.Supervisor, declared.Supervisor)
			below.Name, below.Restart = c.ID, c.Restart
			n.Children = append(n.Children, spec.Child{Node: below})
		case c.Run == nil:
			a := *b.agents[c.ID]
			a.Restart = c.Restart
			n.Children = append(n.Children, spec.Child{Agent: &a})
		default:
			n.Children = append(n.Children, spec.Child{Agent: &spec.Agent{
				Name: c.ID, Program: b.process, Revision: b.revision, Restart: c.Restart,
				Beliefs:  persistentBeliefs(declared.Agent),
				Ready:    spec.Ready{Notify: c.WaitReady},
				Shutdown: spec.Shutdown{Signal: spec.DefaultSignal, Grace: supervisor.DefaultShutdown},
			}})
		}
	}
	return n
}

// persistentBeliefs returns the persistent beliefs of an agent.
func persistentBeliefs(a *check.Agent) (beliefs []spec.Belief) {
	for _, f := range a.Decl.Fields() {
		if f.Persistent {
			beliefs = append(beliefs, spec.Belief{Name: f.Name.Name, Persistent: true})
		}
	}
	return beliefs
}

// merge adds the node of a program to the root of a tree.
func merge(tree *spec.Tree, node *spec.Node) error {
	root := tree.Root
	taken, own := map[string]bool{}, map[string]bool{node.Name: true}
	for _, c := range (&spec.Tree{Root: node}).All() {
		if c.Agent != nil && c.Agent.Program == nil {
			taken[c.Name()] = true
		} else {
			own[c.Name()] = true
		}
	}
	for _, c := range tree.All() {
		if own[c.Name()] { // a dependency on this name would be ambiguous
			return fmt.Errorf("%s is both in the file and in the program; rename one of the two", spec.Quote(c.Name()))
		}
		if c.Node == nil {
			continue
		}
		for _, below := range c.Node.Children {
			if taken[below.Name()] {
				return fmt.Errorf("the agent %s is a child of both the supervisor %s and the program; "+
					"remove one of the two", spec.Quote(below.Name()), spec.Quote(c.Node.Name))
			}
		}
	}
	root.Children = slices.DeleteFunc(root.Children, func(c spec.Child) bool { return taken[c.Name()] })
	// The root restarts a program that has failed, but not one that has ended normally.
	node.Restart = supervisor.Transient
	root.Children = append(root.Children, spec.Child{Node: node})
	return checkNames(tree)
}

// checkNames returns an error for names that are invalid in paths, and for trees that are too deep.
func checkNames(tree *spec.Tree) error {
	var check func(n *spec.Node, level int) error
	check = func(n *spec.Node, level int) error {
		if level > supervisor.MaxDepth {
			return fmt.Errorf("the supervisor %s is on level %d, counted from the root, expected at most %d", n.Name,
				level, supervisor.MaxDepth)
		}
		for _, c := range n.Children {
			if wrong := spec.CheckName(c.Name()); wrong != "" {
				return errors.New(wrong)
			}
			if c.Node != nil {
				if err := check(c.Node, level+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return check(tree.Root, 1)
}
