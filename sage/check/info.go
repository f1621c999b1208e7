// Package check finds out what a program means before it runs: what each name
// stands for, what type each expression has, what can fail. What cannot be
// meant, it says in words one can act on.
package check

import (
	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// Info is the result of checking a program. It is complete if there are no errors;
// with errors it has what could be found out. It does not change afterwards and can
// be read concurrently.
type Info struct {
	Modules     []*Module     // the first is that of the first file; each before those that it declares
	Consts      []*Object     // of all modules, each behind those that its value is made of
	Agents      []*Agent      // of all modules, in the order of the text
	Supervisors []*Supervisor // of all modules, in the order of the text
	Tests       []*syntax.TestDecl
	Entry       *Entry // nil if nothing is run

	// Types are those of all expressions. Of the name of a function that has
	// type parameters it is that for which it is used.
	Types map[syntax.Expr]*types.Type

	// Defs are the objects that names declare, and Uses those that they stand
	// for. Of a path, each segment has its own. These have one, too:
	//   - the name behind a dot: field, belief, variant, function of a tool, one
	//     of the library that is called as a method (x.f(y) is f(x, y)), and get,
	//     set and checkpoint of a belief;
	//   - the names in the braces of records, summon, run and children;
	//   - the names of patterns, of types and of tools.
	Defs map[*syntax.Ident]*Object
	Uses map[*syntax.Ident]*Object

	// Unwraps are the TryExpr and CatchExpr whose operand is a Result: try
	// gives what is in Ok, and fails with what is in Err. A CatchExpr without a
	// body is never one of them: it makes a Result of what can fail.
	Unwraps map[syntax.Expr]bool

	// Captures are the variables that a closure takes from around it, in the
	// order in which it uses them.
	Captures map[*syntax.ClosureExpr][]*Object
}

// Module is a file and what it declares.
type Module struct {
	Path    string // such as "db::rows"; "" of the first file
	File    *source.File
	Tree    *syntax.File
	Parent  *Module            // nil of the first file
	Modules map[string]*Module // that it declares with mod
	Objects map[string]*Object // that it declares, without what it uses of others

	pub      bool
	object   *Object            // the module itself
	names    map[string]*Object // what was looked for in the modules it uses with ::*
	aliases  map[string]*use    // what it uses by name
	uses     []*use
	globbed  bool                 // it uses something with ::*
	variants map[string][]*Object // that can be written without their enum
}

// ObjectKind is the kind of an object.
type ObjectKind uint8

// The kinds of objects.
const (
	Variable       ObjectKind = iota // of let, for, patterns, catch; Node is the *syntax.Ident
	Parameter                        // of functions, closures, handlers; Node is the *syntax.Param
	Belief                           // of an agent; Node is the *syntax.Field
	BeliefMethod                     // get, set and checkpoint of a belief
	Const                            // Node is the *syntax.ConstDecl, nil of the library's (see Value)
	Function                         // Node is the *syntax.FuncDecl
	LibraryFunc                      // see Library
	ToolName                         // of a tool
	ToolFunc                         // see Library and Tool
	RecordName                       // Node is the *syntax.RecordDecl, nil of the library's
	RecordField                      // Node is the *syntax.Field, nil of the library's
	EnumName                         // Node is the *syntax.EnumDecl, nil of the library's
	VariantName                      // Node is the *syntax.Variant, nil of the library's
	TypeParam                        // Node is the *syntax.Ident
	AgentName                        // Node is the *syntax.AgentDecl
	SupervisorName                   // Node is the *syntax.SupervisorDecl
	ModuleName                       // Node is the *syntax.ModDecl
	ChildName                        // of a child of a supervisor, to its siblings; Node is the *syntax.Child
)

// Object is an entity that has a name.
type Object struct {
	Kind   ObjectKind
	Name   string
	Span   source.Span // of the name where it is declared; nowhere for those of the library
	Node   syntax.Node // its declaration, see ObjectKind
	Module *Module     // nil for those of the library
	Pub    bool

	// Type is that of the value; of a record, an enum and a type parameter it
	// is the type that it makes, of an agent that of its handle, of a field
	// that of the declaration. Nil for modules, supervisors and tools.
	Type *types.Type

	Index    int  // of a belief, a field or a variant, in its declaration
	Captured bool // of a Variable or Parameter: a closure takes it
	Assigned bool // of a Variable or Parameter: it is assigned to behind its declaration

	Library *library.Function // of a LibraryFunc or ToolFunc: one of those of its name
	Tool    *library.Tool     // of a ToolName or ToolFunc
	Value   any               // of a Const of the library: int64 or float64
	Doc     string            // of what the library declares
	Of      *Module           // of a ModuleName
	Parent  *Object           // of a belief, a field or a variant: what declares it

	params  []*types.Type // type parameters of a function
	state   uint8         // of a const or an agent: whether it is being checked
	scope   typeScope     // of a function
	body    *body         // of a variable: in whose body it is declared
	members map[string]*Object
}

// Agent is an agent.
type Agent struct {
	Object   *Object
	Decl     *syntax.AgentDecl
	Beliefs  []*Object   // in their order
	Tools    []string    // that it uses
	Message  *types.Type // what it can be sent; nil if nothing
	Output   *types.Type // what it yields; Unit if nothing
	Receives bool        // it says receives

	yields    bool // something
	unhandled bool // it has been said that it has no on error
}

// Belief is the belief with this name, nil if there is none.
func (a *Agent) Belief(name string) *Object { return a.Object.members[name] }

// Supervisor is a supervisor.
type Supervisor struct {
	Object   *Object
	Decl     *syntax.SupervisorDecl
	Strategy Strategy
	Children []*Child // in their order
}

// Strategy says which siblings are restarted with a child.
type Strategy uint8

// The strategies.
const (
	OneForOne Strategy = iota
	OneForAll
	RestForOne
)

// Restart says when a child is restarted.
type Restart uint8

// The restart policies.
const (
	Permanent Restart = iota
	Transient
	Temporary
)

// Child is a child of a supervisor: one of Agent, Supervisor and Process is set.
type Child struct {
	Node       *syntax.Child
	Agent      *Agent
	Supervisor *Supervisor
	Process    string  // an agent of the project's file
	Name       *Object // nil if it has no name of its own
	Restart    Restart
	Beliefs    []*syntax.FieldInit // what the agent begins with
}

// Entry is the agent or the supervisor that the program runs.
type Entry struct {
	Decl       *syntax.RunDecl
	Agent      *Agent      // one of these is set
	Supervisor *Supervisor //
}
