package check

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// agentParts resolves the types of the beliefs and messages of an agent.
func (c *checker) agentParts(m *Module, d *syntax.AgentDecl) {
	o := c.info.Defs[d.Name]
	a := c.agents[o]
	s := typeScope{module: m}
	o.members = map[string]*Object{}
	for _, f := range d.Fields() {
		b := &Object{Kind: Belief, Name: f.Name.Name, Span: f.Name.Span, Node: f, Module: m, Type: c.typ(f.Type, s),
			Index: len(a.Beliefs), Parent: o, Pub: true}
		c.info.Defs[f.Name] = b
		if b.Name == "" {
			continue
		}
		if !c.addUnique(o.members, f.Name, b, "belief `%s` is declared twice") {
			continue
		}
		if b.Name == "restart" {
			c.fault(f.Name, CodeDuplicate, "give it another name",
				"`restart` says in a supervisor when a child is restarted, and cannot be a belief")
		}
		a.Beliefs = append(a.Beliefs, b)
	}
	for _, t := range d.Uses() {
		tool := c.universe.tools[t.Name]
		if tool == nil {
			if user := m.Objects[t.Name]; t.Name != "" && (user == nil || user.Kind != ToolName) {
				c.fault(t, CodeName, c.didYouMeanOr(t.Name, c.toolNames(), "the tools are "), "there is no tool `%s`",
					truncate(t.Name))
			}
			continue
		}
		c.info.Uses[t] = tool
		if !slices.Contains(a.Tools, t.Name) {
			a.Tools = append(a.Tools, t.Name)
		}
	}
	for _, part := range d.Clauses {
		switch p := part.(type) {
		case *syntax.ReceivesClause:
			if a.Receives {
				c.fault(p, CodeTwice, "remove one of them", "what agent `%s` receives is said twice",
					truncate(d.Name.Name))
				continue
			}
			a.Receives = true
			a.Message = c.typ(p.Type, s)
			c.checkShareable(p.Type, a.Message, "sent to an agent")
		case *syntax.FollowsClause:
			c.unsupported(p, "protocols (`follows`)", "say what the agent is sent with `receives`")
		}
	}
	c.handlers(a, s)
	o.Type.Decl.Message = a.Message
}

// handlers checks the list of handlers without their bodies.
func (c *checker) handlers(a *Agent, s typeScope) {
	seen := map[syntax.Event]*syntax.Handler{}
	for _, h := range a.Decl.Handlers() {
		if first := seen[h.Event]; first != nil {
			c.duplicate(h.Word, CodeEvent, first.Word.Span, "put all into one of them",
				"agent `%s` has two handlers of `%s`", truncate(a.Object.Name), h.Event)
			continue
		}
		seen[h.Event] = h
		switch h.Event {
		case syntax.EventMessage:
			c.messageHandler(a, h, s)
		case syntax.EventError:
			if h.Param != nil && h.Param.Type != nil {
				c.fits(h.Param.Type, c.typ(h.Param.Type, s), c.universe.failure,
					reason{what: "is the type that `on error` receives"})
			}
		}
	}
}

func (c *checker) messageHandler(a *Agent, h *syntax.Handler, s typeScope) {
	if h.Param == nil {
		if !c.malformed[h.File] {
			c.fault(h.Word, CodeEvent, "write on message(m: T)", "`on message` does not say which message it is given")
		}
		return
	}
	if h.Param.Type == nil {
		return
	}
	t := c.typ(h.Param.Type, s)
	c.checkShareable(h.Param.Type, t, "sent to an agent")
	if a.Receives {
		c.fits(h.Param.Type, t, a.Message, reason{what: "is the type of the messages to the agent"})
		return
	}
	a.Message = t
}

// checkShareable reports a value that cannot be passed to another agent.
func (c *checker) checkShareable(at syntax.Node, t *types.Type, how string) {
	if types.Some(t, func(t *types.Type) bool { return t.Kind == types.Func }) {
		c.fault(at, CodeMessage, "give the values that it is made of",
			"a function cannot be %s, since agents share no variables", how)
	}
}

// agent checks the handlers of an agent, once.
func (c *checker) agent(a *Agent) {
	o := a.Object
	if o.state != unseen {
		return
	}
	o.state = active
	m := o.Module
	for _, b := range a.Beliefs {
		c.initialValue(a, b)
	}
	if h := a.Decl.Handler(syntax.EventWaking); h != nil && !a.hasPersistent() {
		c.warn(h.Word, CodeNothingKept, "mark what is to be kept with @persistent",
			"agent `%s` has `on waking`, and no persistent beliefs that could be woken", o.Name)
	}
	for _, h := range a.Decl.Handlers() {
		b := &body{kind: handlerBody, scope: typeScope{module: m}, agent: a, event: h.Event}
		c.in(b, func() {
			if p := h.Param; p != nil {
				t := types.Of(types.Invalid)
				switch {
				case h.Event == syntax.EventError:
					t = c.universe.failure
				case p.Type != nil && h.Event == syntax.EventMessage:
					t = a.Message
				case h.Event == syntax.EventMessage && a.Message != nil:
					t = a.Message
				}
				c.variable(Parameter, p.Name, p, t)
			}
			c.block(h.Body, nil, false)
		})
	}
	if !a.yields {
		c.fits(a.Decl.Name, c.universe.unit, o.Type.Decl.Output,
			reason{what: "is the type that `await` expects from the agent",
				help: "it yields nothing: write yield(…) in one of its handlers"})
	}
	o.state = done
}

// closeOutputs fixes the output types of agents after all agents are checked.
func (c *checker) closeOutputs() {
	for _, a := range c.info.Agents {
		d := a.Object.Type.Decl
		d.Output = types.Close(d.Output)
		a.Output = d.Output
		c.checkShareable(a.Decl.Name, a.Output, "yielded")
	}
}

// initialValue checks a belief and its initial value.
func (c *checker) initialValue(a *Agent, b *Object) {
	f := b.Node.(*syntax.Field)
	if f.Value != nil {
		c.in(&body{kind: valueBody, scope: typeScope{module: a.Object.Module}}, func() {
			c.expect(f.Value, b.Type, reason{what: "is the type of the belief"})
		})
	}
	switch {
	case f.Persistent && !types.Persistable(b.Type):
		c.fault(f.Type, CodePersistent, "keep numbers, text, lists, maps, records and enums; or remove @persistent",
			"belief `%s` cannot be kept: `%s` has functions or agents in it", b.Name, b.Type)
	case f.Persistent && f.Value == nil && !types.HasZero(b.Type):
		c.fault(f.Type, CodePersistent, "give it a value to begin with: "+b.Name+": "+b.Type.String()+" = …",
			"belief `%s` has nothing to begin with: `%s` has no zero value", b.Name, b.Type)
	case !f.Persistent:
		c.checkShareable(f.Type, b.Type, "given to an agent")
	}
}
