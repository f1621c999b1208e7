package syntax

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/source"
)

// The kinds of declarations.
type (
	// ModDecl is mod name;
	ModDecl struct {
		source.Span
		Pub  bool
		Name *Ident
	}
	// UseDecl is use a::b; use a::b as c; use a::*; or use a::{b, c as d};
	UseDecl struct {
		source.Span
		Pub   bool
		Path  []*Ident
		Alias *Ident    // as c
		Glob  bool      // ::*
		Names []UseName // ::{…}
	}
	// RecordDecl is record Name<T> { field: T, … }.
	RecordDecl struct {
		source.Span
		Pub        bool
		Name       *Ident
		TypeParams []*Ident
		Fields     []*Field
	}
	// EnumDecl is enum Name<T> { A, B(T, U), … }.
	EnumDecl struct {
		source.Span
		Pub        bool
		Name       *Ident
		TypeParams []*Ident
		Variants   []*Variant
	}
	// ConstDecl is const NAME: T = value;
	ConstDecl struct {
		source.Span
		Pub   bool
		Name  *Ident
		Type  Type // nil if omitted
		Value Expr
	}
	// FuncDecl is fn name<T>(x: T) -> R fails { }. Functions of tools and extern functions have no
	// body.
	FuncDecl struct {
		source.Span
		Pub        bool
		Extern     bool
		Attrs      []*Attr // only in a tool
		Name       *Ident
		TypeParams []*Ident
		Params     []*Param
		Result     Type // nil if omitted
		Fails      bool
		Body       *Block // nil if there is none
	}
	// AgentDecl is agent Name receives T { … }.
	AgentDecl struct {
		source.Span
		Pub     bool
		Name    *Ident
		Clauses []AgentPart // before the brace: ReceivesClause, FollowsClause, UseClause
		Members []AgentPart // in the braces: UseClause, Field, Handler
	}
	// SupervisorDecl is supervisor Name { strategy: S children { … } }.
	SupervisorDecl struct {
		source.Span
		Pub     bool
		Name    *Ident
		Members []SupervisorPart // FieldInit and ChildrenBlock
	}
	// TestDecl is test "name" { }.
	TestDecl struct {
		source.Span
		Attrs []*Ident // such as serial, of @serial
		Name  *StringLit
		Body  *Block
	}
	// RunDecl is run Name; or run Name { field: value };
	RunDecl struct {
		source.Span
		Target *Path
		Braces bool // whether the braces are written
		Inits  []*FieldInit
	}
	// ToolDecl is tool Name { fn f() -> T … }.
	ToolDecl struct {
		source.Span
		Pub   bool
		Name  *Ident
		Funcs []*FuncDecl
	}
	// ProtocolDecl is protocol Name { A -> B: T … }.
	ProtocolDecl struct {
		source.Span
		Pub   bool
		Name  *Ident
		Steps []*ProtocolStep
	}
	// EffectDecl is handler Name handles Effect { setting: value … }.
	EffectDecl struct {
		source.Span
		Pub    bool
		Name   *Ident
		Effect *Ident
		Inits  []*FieldInit
	}
	// BadDecl stands for a declaration with a syntax error.
	BadDecl struct{ source.Span }
)

func (*ModDecl) declNode()        {}
func (*UseDecl) declNode()        {}
func (*RecordDecl) declNode()     {}
func (*EnumDecl) declNode()       {}
func (*ConstDecl) declNode()      {}
func (*FuncDecl) declNode()       {}
func (*AgentDecl) declNode()      {}
func (*SupervisorDecl) declNode() {}
func (*TestDecl) declNode()       {}
func (*RunDecl) declNode()        {}
func (*ToolDecl) declNode()       {}
func (*ProtocolDecl) declNode()   {}
func (*EffectDecl) declNode()     {}
func (*BadDecl) declNode()        {}

// UseName is a name in the braces of a use. Alias is nil if there is none.
type UseName struct {
	Name, Alias *Ident
}

// Variant is a variant of an enum with the types of its payload.
type Variant struct {
	source.Span
	Name    *Ident
	Payload []Type
}

// Param is a parameter. Type is nil if it is omitted, which only closures and error handlers may
// do.
type Param struct {
	source.Span
	Name *Ident
	Type Type
}

// Attr is #[name = value].
type Attr struct {
	source.Span
	Name  *Ident
	Value *StringLit // nil if there is none
}

// FieldInit is name: value, in a record literal, a summon, a child, or a setting such as restart
// and strategy.
type FieldInit struct {
	source.Span
	Name  *Ident
	Value Expr
}

// ProtocolStep is From -> To: Message.
type ProtocolStep struct {
	source.Span
	From, To *Ident
	Message  Type
}

// AgentPart is a clause or a member of an agent.
type AgentPart interface {
	Node
	agentPart()
}

type (
	// ReceivesClause is receives T.
	ReceivesClause struct {
		source.Span
		Type Type
	}
	// FollowsClause is follows P as R, Q as S.
	FollowsClause struct {
		source.Span
		Roles []Role
	}
	// UseClause is use A, B in an agent, or uses A, B before its brace.
	UseClause struct {
		source.Span
		Uses  bool // written as uses
		Tools []*Ident
	}
	// Field is a field of a record or a belief of an agent.
	Field struct {
		source.Span
		Persistent bool
		Name       *Ident
		Type       Type
		Value      Expr // of a belief; nil if omitted
	}
	// Handler is on event { }.
	Handler struct {
		source.Span
		Event Event
		Word  *Ident // the event as written
		Param *Param // of error and message; nil if omitted
		Body  *Block
	}
	// BadPart stands for a member with a syntax error.
	BadPart struct{ source.Span }
)

func (*ReceivesClause) agentPart() {}
func (*FollowsClause) agentPart()  {}
func (*UseClause) agentPart()      {}
func (*Field) agentPart()          {}
func (*Handler) agentPart()        {}
func (*BadPart) agentPart()        {}

// Role is the role of an agent in a protocol.
type Role struct {
	Protocol, Role *Ident
}

// Event is an event that a handler handles.
type Event uint8

// The events. EventResting is written resting, or stop, its former name.
const (
	EventStart Event = iota
	EventWaking
	EventResting
	EventError
	EventPause
	EventResume
	EventMessage
)

// String returns the event as written in the source.
func (e Event) String() string {
	names := [...]string{"start", "waking", "resting", "error", "pause", "resume", "message"}
	if int(e) < len(names) {
		return names[e]
	}
	return "?"
}

// Receives returns the type of the agent's messages, nil if it has no receives clause.
func (a *AgentDecl) Receives() Type {
	if r := only[*ReceivesClause](a.Clauses); len(r) > 0 {
		return r[0].Type
	}
	return nil
}

// Uses returns the tools of the agent in source order.
func (a *AgentDecl) Uses() []*Ident {
	var tools []*Ident
	for _, u := range only[*UseClause](slices.Concat(a.Clauses, a.Members)) {
		tools = append(tools, u.Tools...)
	}
	return tools
}

// Fields returns the beliefs of the agent.
func (a *AgentDecl) Fields() []*Field { return only[*Field](a.Members) }

// Handlers returns the handlers of the agent.
func (a *AgentDecl) Handlers() []*Handler { return only[*Handler](a.Members) }

// Handler returns the first handler of an event, nil if there is none.
func (a *AgentDecl) Handler(event Event) *Handler {
	for _, h := range a.Handlers() {
		if h.Event == event {
			return h
		}
	}
	return nil
}

// SupervisorPart is a member of a supervisor.
type SupervisorPart interface {
	Node
	supervisorPart()
}

// ChildrenBlock is children { … }.
type ChildrenBlock struct {
	source.Span
	Children []*Child
}

// Child is a child of a supervisor: an agent, a supervisor, or an agent of the project's file,
// named in quotes.
type Child struct {
	source.Span
	Target  *Path      // nil if Process is set
	Process *StringLit // nil unless named in quotes
	Name    *Ident     // after as; nil if there is none
	Parts   []ChildPart
}

// ChildPart is a FieldInit (restart and beliefs) or an EffectBinding.
type ChildPart interface {
	Node
	childPart()
}

// EffectBinding is handler Effect: Handler.
type EffectBinding struct {
	source.Span
	Effect, Handler *Ident
}

func (*FieldInit) supervisorPart()     {}
func (*ChildrenBlock) supervisorPart() {}
func (*FieldInit) childPart()          {}
func (*EffectBinding) childPart()      {}

// Settings returns the settings with this name, such as strategy. A valid program has one of each.
func (s *SupervisorDecl) Settings(name string) []*FieldInit {
	return slices.DeleteFunc(only[*FieldInit](s.Members), func(f *FieldInit) bool { return f.Name.Name != name })
}

// Children returns all children of the supervisor.
func (s *SupervisorDecl) Children() []*Child {
	var children []*Child
	for _, b := range only[*ChildrenBlock](s.Members) {
		children = append(children, b.Children...)
	}
	return children
}

// Beliefs returns the settings of the child except restart.
func (c *Child) Beliefs() []*FieldInit {
	return slices.DeleteFunc(only[*FieldInit](c.Parts), func(f *FieldInit) bool { return f.Name.Name == "restart" })
}

// only returns the parts of type T.
func only[T, P Node](parts []P) []T {
	var found []T
	for _, p := range parts {
		if t, ok := Node(p).(T); ok {
			found = append(found, t)
		}
	}
	return found
}
