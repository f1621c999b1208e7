package check

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/syntax"
)

var (
	strategies = []string{OneForOne: "OneForOne", OneForAll: "OneForAll", RestForOne: "RestForOne"}
	restarts   = []string{Permanent: "Permanent", Transient: "Transient", Temporary: "Temporary"}
)

// String returns the strategy as written in the source.
func (s Strategy) String() string { return strategies[s] }

// String returns the restart policy as written in the source.
func (r Restart) String() string { return restarts[r] }

// supervisor checks the settings and the children of a supervisor.
func (c *checker) supervisor(s *Supervisor) {
	d := s.Decl
	found := d.Settings("strategy")
	if len(found) == 0 {
		if !c.malformed[d.File] {
			c.fault(d.Name, CodeSetting, "write strategy: OneForOne (only what failed is restarted), OneForAll "+
				"(all children are) or RestForOne (also those after it)", "supervisor `%s` has no strategy",
				truncate(d.Name.Name))
		}
	} else {
		i, _ := c.choice(found[0].Value, strategies, "strategy")
		s.Strategy = Strategy(i)
		for _, f := range found[1:] {
			c.duplicate(f.Name, CodeTwice, found[0].Name.Span, "remove one of them", "the strategy is given twice")
		}
	}
	for _, part := range d.Members {
		if f, ok := part.(*syntax.FieldInit); ok && f.Name.Name != "strategy" && f.Name.Name != "" {
			help := didYouMean(f.Name.Name, []string{"strategy", "children"})
			if f.Name.Name == "max_restarts" || f.Name.Name == "within_seconds" {
				help = "write it into grove.toml, below [supervision]"
			}
			c.fault(f.Name, CodeSetting, help, "supervisors have no `%s`", truncate(f.Name.Name))
		}
	}
	children := d.Children()
	if len(children) == 0 && !c.malformed[d.File] {
		c.fault(d.Name, CodeNoChildren, "write children { Name { restart: Permanent } }",
			"supervisor `%s` has no children", truncate(d.Name.Name))
	}
	all := make([]*Child, len(children))
	known := make([]bool, len(children))
	for i, n := range children {
		all[i] = &Child{Node: n, Beliefs: n.Beliefs()}
		if n.Target == nil {
			c.process(all[i])
			known[i] = true
		} else {
			known[i] = c.resolveChild(s, all[i])
		}
	}
	named := c.childNames(s, all)
	for i, child := range all {
		c.checkChild(s, child, known[i], named)
	}
}

// choice returns the index of the written word, 0 if it is none of them.
func (c *checker) choice(x syntax.Expr, words []string, what string) (index int, ok bool) {
	id, ok := x.(*syntax.Ident)
	if !ok {
		if _, bad := x.(*syntax.BadExpr); !bad {
			c.fault(x, CodeSetting, "", "expected a %s: %s", what, choices(words))
		}
		return 0, false
	}
	if i := slices.Index(words, id.Name); i >= 0 {
		return i, true
	}
	if id.Name != "" {
		help := didYouMean(id.Name, words)
		switch id.Name {
		case "always", "Always":
			help = "did you mean `Permanent`?"
		case "never", "Never":
			help = "did you mean `Temporary`?"
		case "on_failure", "OnFailure":
			help = "did you mean `Transient`?"
		}
		c.fault(x, CodeSetting, help, "unknown %s `%s`, expected %s, %s or %s", what, truncate(id.Name), words[0],
			words[1], words[2])
	}
	return 0, false
}

// checkChild checks a child. exists tells whether its target exists.
func (c *checker) checkChild(s *Supervisor, child *Child, exists bool, named map[string]*Object) {
	n := child.Node
	var restart *syntax.FieldInit
	known := true
	for _, part := range n.Parts {
		switch p := part.(type) {
		case *syntax.FieldInit:
			if p.Name.Name != "restart" {
				continue
			}
			if restart != nil {
				c.duplicate(p.Name, CodeTwice, restart.Name.Span, "remove one of them",
					"when the child is restarted is said twice")
				continue
			}
			restart = p
			i, ok := c.choice(p.Value, restarts, "restart policy")
			child.Restart, known = Restart(i), ok
		case *syntax.EffectBinding:
			c.unsupported(p, "effect handlers of a child", "the model is configured for the whole program")
		}
	}
	if !exists {
		c.in(childBody(s, named), func() { c.values(child.Beliefs) })
		return
	}
	s.Children = append(s.Children, child)
	switch {
	case child.Agent != nil:
		c.in(childBody(s, named), func() { c.beliefs(child.Agent, child.Beliefs, n.Target, CodeChildBelief, "child") })
		if child.Restart == Permanent && known && !child.Agent.hasPersistent() {
			c.warn(n.Target, CodeForgets, "mark what must not be lost with @persistent, or restart it as Transient",
				"child `%s` is restarted whatever happens, and keeps nothing: it has no persistent beliefs",
				child.Agent.Object.Name)
		}
	case len(child.Beliefs) > 0:
		what := "processes have"
		if child.Supervisor != nil {
			what = "supervisors have"
		}
		c.in(childBody(s, named), func() { c.values(child.Beliefs) })
		c.fault(child.Beliefs[0].Name, CodeBelief, "only agents have; here only restart can stand", "%s no beliefs",
			what)
	}
}

func childBody(s *Supervisor, named map[string]*Object) *body {
	return &body{kind: valueBody, scope: typeScope{module: s.Object.Module}, children: named}
}

// process checks a child that is an agent of the project's file.
func (c *checker) process(child *Child) {
	name := child.Node.Process
	child.Process = name.Value
	if !slices.Contains(c.config.Processes, name.Value) {
		help := c.didYouMeanOr(name.Value, c.config.Processes, "its agents are ")
		if help == "" {
			help = "declare it in coppice.toml: [[agent]] with name = \"…\"; a Sage agent is written without quotes"
		}
		c.fault(name, CodeNoChild, help, "child agent %q does not exist in the project's file", truncate(name.Value))
		return
	}
	if first := c.processes[name.Value]; first != nil {
		c.duplicate(name, CodeTwice, first.Span, "a process can be at one place only", "process %q is a child twice",
			truncate(name.Value))
		return
	}
	c.processes[name.Value] = name
}

// resolveChild resolves the agent or supervisor that a child names.
func (c *checker) resolveChild(s *Supervisor, child *Child) bool {
	path := child.Node.Target
	m := s.Object.Module
	last := path.Last()
	if last.Name == "" {
		return false
	}
	o := c.pathObject(path, m)
	if o == nil {
		if len(path.Segments) == 1 {
			help := c.importHelp(m, last.Name)
			if help == "" {
				help = c.didYouMean(last.Name, c.names(m, AgentName, SupervisorName))
			}
			if help == "" {
				help = "declare it: agent " + truncate(last.Name) + " { }"
				if slices.Contains(c.config.Processes, last.Name) {
					help = "an agent of the project's file is written in quotes: \"" + last.Name + "\""
				}
			}
			c.fault(path, CodeNoChild, help, "child agent `%s` does not exist", truncate(last.Name))
		}
		return false
	}
	switch o.Kind {
	case AgentName:
		child.Agent = c.agents[o]
		return true
	case SupervisorName:
		child.Supervisor = c.supers[o]
		return true
	}
	c.fault(path, CodeNoChild, "children are agents and supervisors", "child agent `%s` does not exist: this is %s",
		truncate(path.String()), o.Kind.article())
	return false
}

// nesting reports supervisors below themselves, and those nested too deep, counted from supervisors
// that are not children.
func (c *checker) nesting() {
	state := map[*Supervisor]uint8{}
	var order []*Supervisor // children before their parents
	var visit func(*Supervisor)
	cut := map[*Child]bool{}
	visit = func(s *Supervisor) {
		state[s] = active
		for _, n := range s.Children {
			if n.Supervisor == nil {
				continue
			}
			switch state[n.Supervisor] {
			case unseen:
				visit(n.Supervisor)
			case active:
				cut[n] = true
				help := "take it out here, or make another supervisor"
				c.report(diag.Diagnostic{
					Span: n.Node.Target.Span, Code: CodeCycle, Help: help,
					Message: "supervisor `" + truncate(n.Supervisor.Object.Name) + "` is below itself",
					Related: []diag.Related{{Span: n.Supervisor.Object.Span, Message: "it is declared here"}},
				})
			}
		}
		state[s] = done
		order = append(order, s)
	}
	for _, s := range c.info.Supervisors {
		if state[s] == unseen {
			visit(s)
		}
	}
	level := map[*Supervisor]int{}
	for _, s := range slices.Backward(order) {
		at := max(level[s], 1)
		for _, n := range s.Children {
			if n.Supervisor == nil || cut[n] {
				continue
			}
			if at == MaxDepth && level[n.Supervisor] <= MaxDepth {
				c.fault(n.Node.Target, CodeDepth, "put the children of one of the supervisors "+
					"above it into the next one", "supervisor nesting depth exceeds maximum (%d > %d): the first "+
					"supervisor is level 1, and `%s` would be level %d",
					MaxDepth+1, MaxDepth, truncate(n.Supervisor.Object.Name), MaxDepth+1)
			}
			level[n.Supervisor] = max(level[n.Supervisor], at+1)
		}
	}
}

// entry checks the run declarations of a module.
func (c *checker) entry(m *Module, first bool) {
	var run *syntax.RunDecl
	for _, d := range m.Tree.Decls {
		r, ok := d.(*syntax.RunDecl)
		if !ok {
			continue
		}
		switch {
		case !first:
			c.fault(r, CodeEntry, "remove it, or run this file itself",
				"only the first file of a program says what is run")
		case run != nil:
			c.duplicate(r, CodeEntry, run.Span, "a supervisor runs several agents",
				"a program runs one agent or supervisor, and this is the second one")
		default:
			c.run(m, r)
		}
		run = r
	}
}

func (c *checker) run(m *Module, r *syntax.RunDecl) {
	e := &Entry{Decl: r}
	o := c.pathObject(r.Target, m)
	last := r.Target.Last()
	check := func() { c.values(r.Inits) }
	switch {
	case o == nil:
		if len(r.Target.Segments) == 1 && last.Name != "" {
			help := c.importHelp(m, last.Name)
			if help == "" {
				help = c.didYouMeanOr(last.Name, c.names(m, AgentName, SupervisorName), "there are ")
			}
			c.fault(r.Target, CodeEntry, help, "there is no agent or supervisor `%s`", truncate(last.Name))
		}
	case o.Kind == AgentName:
		e.Agent = c.agents[o]
		check = func() { c.beliefs(e.Agent, r.Inits, r.Target, CodeMissing, "agent") }
		if d := e.Agent.Decl; d.Handler(syntax.EventStart) == nil && d.Handler(syntax.EventMessage) == nil &&
			!c.malformed[d.File] {
			c.fault(r.Target, CodeEntry, "add on start { } to it",
				"agent `%s` is run, and has nothing to do: it has no `on start`", o.Name)
		}
	case o.Kind == SupervisorName:
		e.Supervisor = c.supers[o]
		if len(r.Inits) > 0 {
			c.fault(r.Inits[0].Name, CodeBelief, "write it at the child that has it", "supervisors have no beliefs")
		}
	default:
		c.fault(r.Target, CodeEntry, "", "`%s` is %s: only agents and supervisors are run", truncate(r.Target.String()),
			o.Kind.article())
	}
	c.in(&body{kind: valueBody, scope: typeScope{module: m}}, check)
	if e.Agent != nil || e.Supervisor != nil {
		c.info.Entry = e
	}
}
