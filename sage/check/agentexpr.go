package check

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// agentExpr checks the expressions of agents.
func (c *checker) agentExpr(x syntax.Expr, want *types.Type) *types.Type {
	unit := c.universe.unit
	switch x := x.(type) {
	case *syntax.SummonExpr:
		return c.summon(x)
	case *syntax.AwaitExpr:
		return c.await(x)
	case *syntax.SendExpr:
		return c.send(x)
	case *syntax.ReceiveExpr:
		return c.receive(x)
	case *syntax.YieldExpr:
		c.yield(x)
		return types.Of(types.Never)
	case *syntax.TraceExpr:
		c.require(printable, c.expr(x.Value, nil), x.Value, 0)
		return unit
	case *syntax.CheckpointExpr:
		if a := c.current.agent; a == nil {
			c.fault(x, CodeCheckpoint, "call it in a handler of the agent whose beliefs are to be written",
				"checkpoint() stands in no agent")
		} else if !a.hasPersistent() {
			c.warn(x, CodeNothingKept, "mark a belief with @persistent",
				"agent `%s` has no persistent beliefs, so there is nothing to write", a.Object.Name)
		}
		return unit
	case *syntax.DivineExpr:
		return c.divine(x, want)
	case *syntax.ReplyExpr:
		c.expr(x.Value, nil)
		return c.invalid(x, CodeUnsupported, "let the asker send its handle with the message, Ask(self, 21), "+
			"and send the answer to that: send(to, answer)", "protocols, and with them `reply`, are not supported")
	}
	return types.Of(types.Invalid)
}

// hasPersistent reports whether an agent has persistent beliefs.
func (a *Agent) hasPersistent() bool {
	return slices.ContainsFunc(a.Beliefs, func(b *Object) bool { return b.Node.(*syntax.Field).Persistent })
}

func (a *Agent) beliefNames() []string {
	names := make([]string, len(a.Beliefs))
	for i, b := range a.Beliefs {
		names[i] = b.Name
	}
	return names
}

func (c *checker) summon(x *syntax.SummonExpr) *types.Type {
	o := c.agentNamed(x.Agent, c.current.scope.module)
	if o == nil {
		c.values(x.Inits)
		return types.Of(types.Invalid)
	}
	c.beliefs(c.agents[o], x.Inits, x.Agent, CodeMissing, "agent")
	return o.Type
}

// beliefs checks the initial values given to an agent.
func (c *checker) beliefs(a *Agent, inits []*syntax.FieldInit, at syntax.Node, missing, what string) {
	given := make(map[string]*syntax.FieldInit, len(inits))
	unknown := false
	for _, f := range inits {
		name := f.Name.Name
		b := a.Belief(name)
		if b == nil {
			c.expr(f.Value, nil)
			unknown = true
			if name != "" {
				help := c.didYouMeanOr(name, a.beliefNames(), "its beliefs are ")
				if len(a.Beliefs) == 0 {
					help = "it has none; declare it in the agent: " + truncate(name) + ": Type"
				}
				c.fault(f.Name, CodeBelief, help, "agent `%s` has no belief `%s`", a.Object.Name, truncate(name))
			}
			continue
		}
		c.info.Uses[f.Name] = b
		if first := given[name]; first != nil {
			c.duplicate(f.Name, CodeTwice, first.Name.Span, "remove one of them", "belief `%s` is given twice", name)
		}
		given[name] = f
		c.expect(f.Value, b.Type, reason{what: "is the type of the belief"})
	}
	if unknown || c.malformed[at.Extent().File] {
		return
	}
	var names []string
	for _, b := range a.Beliefs {
		if f := b.Node.(*syntax.Field); given[b.Name] == nil && !f.Persistent && f.Value == nil {
			names = append(names, "`"+b.Name+"`")
		}
	}
	if len(names) > 0 {
		word := "belief"
		if len(names) > 1 {
			word = "beliefs"
		}
		help := "give it in the braces, such as " + strings.Trim(names[0], "`") + ": …; or mark it with @persistent"
		c.fault(at, missing, help, "%s `%s` is missing required %s %s", what, a.Object.Name, word, choices(names))
	}
}

func (c *checker) await(x *syntax.AwaitExpr) *types.Type {
	t := c.expr(x.X, nil)
	if x.Timeout != nil {
		c.expect(x.Timeout, types.Of(types.Int), reason{what: "is the type of the timeout in milliseconds"})
	}
	help := startHelp
	if t.Resolve().Kind == types.List {
		help = "wait for one after the other: for a in agents { try await a; }"
	}
	if d := c.handle(x, x.X, t, "await", "await waits for an agent", help); d != nil {
		return c.output(d)
	}
	return types.Of(types.Invalid)
}

const startHelp = "an agent is started with summon Name { }, which gives its handle"

// handle returns the agent whose handle await or send is given. It reports any other operand and
// returns nil.
func (c *checker) handle(x, operand syntax.Expr, t *types.Type, word, takes, help string) *types.Decl {
	t = t.Resolve()
	if t.Kind != types.Invalid || c.current.cover != nil {
		c.fallible(x, "`"+word+"`")
	}
	switch t.Kind {
	case types.Agent:
		return t.Decl
	case types.Invalid, types.Never:
	case types.Var:
		c.unknown(operand, "write it where the value comes from: |a: Agent<Name>| …")
	default:
		c.fault(operand, CodeHandle, help, "%s, and this is `%s`", takes, t)
	}
	return nil
}

// output returns the type that an agent yields. It checks the agent's handlers first, unless that
// is already in progress.
func (c *checker) output(d *types.Decl) *types.Type {
	// A long chain of agents that await one another is not followed to its end.
	if a := c.agentsOf[d]; a != nil && a.Object.state == unseen && c.depth < 100 {
		c.depth++
		c.agent(a)
		c.depth--
	}
	return d.Output
}

func (c *checker) send(x *syntax.SendExpr) *types.Type {
	d := c.handle(x, x.To, c.expr(x.To, nil), "send", "send sends to an agent", startHelp)
	if d != nil && d.Message != nil {
		c.expect(x.Message, d.Message, reason{what: "is the type of the messages to agent `" + d.Name + "`"})
		return c.universe.unit
	}
	if d != nil {
		c.fault(x.To, CodeMessage, "write receives T after its name, or add on message(m: T) { }",
			"agent `%s` takes no messages", d.Name)
	}
	c.expr(x.Message, nil)
	return c.universe.unit
}

func (c *checker) receive(x *syntax.ReceiveExpr) *types.Type {
	b := c.current
	if b.agent == nil {
		return c.invalid(x, CodeMessage, "call it in a handler of an agent, and give the message to the function",
			"receive() stands in no agent")
	}
	if b.event == syntax.EventWaking || b.event == syntax.EventResting {
		c.fault(x, CodeReceive, "receive messages in on start, or handle them with on message(m: T) { }",
			"receive() cannot stand in `on %s`: no message comes before an agent has started and after it has ended",
			b.event)
	}
	if b.agent.Message == nil {
		return c.invalid(x, CodeMessage, "write what it receives after its name: agent "+b.agent.Object.Name+
			" receives T { }", "agent `%s` takes no messages", b.agent.Object.Name)
	}
	return b.agent.Message
}

func (c *checker) yield(x *syntax.YieldExpr) {
	b := c.current
	if b.kind != handlerBody {
		help := "return the value, and yield it in a handler"
		if b.kind == closureBody && b.agent != nil {
			help = "a closure only returns; yield after it, in the handler itself"
		}
		c.fault(x, CodeYield, help, "yield ends an agent, and this is not a handler")
		if x.Value != nil {
			c.expr(x.Value, nil)
		}
		return
	}
	switch b.event {
	case syntax.EventResting:
		c.fault(x, CodeYieldAtEnd, "yield in on start, on message or on error",
			"yield cannot stand in `on resting`: the agent has ended already")
	case syntax.EventWaking, syntax.EventPause, syntax.EventResume:
		c.fault(x, CodeYield, "yield in on start, on message or on error", "yield cannot stand in `on %s`", b.event)
	}
	b.agent.yields = true
	w := reason{what: "is the type that agent `" + b.agent.Object.Name + "` yields elsewhere"}
	output := b.agent.Object.Type.Decl.Output
	if x.Value == nil {
		c.fits(x, c.universe.unit, output, w)
		return
	}
	c.expect(x.Value, output, w)
}

// divine checks divine(prompt -> T). Without a written type, the expected one applies.
func (c *checker) divine(x *syntax.DivineExpr, want *types.Type) *types.Type {
	c.expect(x.Prompt, types.Of(types.String), reason{what: "is the type of a prompt"})
	c.fallible(x, "`divine`")
	t := want
	if x.Type != nil {
		t = c.typ(x.Type, c.current.scope)
	} else if t == nil || t.Resolve().Kind == types.Var || fitsAll(t) {
		return types.Of(types.String)
	}
	switch r := t.Resolve(); {
	case !types.Persistable(r):
		c.fault(x, CodeType, "ask for text, numbers, lists, records and enums", "a model cannot answer with `%s`", r)
	case types.Some(r, func(t *types.Type) bool { return t.Kind == types.Param }):
		c.fault(x, CodeType, "write which type it is",
			"a model cannot be asked for `%s`, which is a type parameter", r)
	}
	return t
}
