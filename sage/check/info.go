// Package check analyses a program before it runs: it resolves names, infers the types of
// expressions and finds what can fail. Its diagnostics explain how to fix a fault.
package check

import (
	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// Info is the result of checking a program. It is complete if there are no errors, otherwise
// partial. It does not change afterwards and can be read concurrently.
type Info struct {
	Modules     []*Module     // the entry module first, parents before children
	Consts      []*Object     // of all modules, in order of dependency
	Agents      []*Agent      // of all modules, in source order
	Supervisors []*Supervisor // of all modules, in source order
	Tests       []*syntax.TestDecl
	Entry       *Entry // nil without a run declaration

	// Types holds the types of all expressions. The type of a generic function's name is that of
	// its instance.
	Types map[syntax.Expr]*types.Type

	// Defs maps names to the objects that they declare, and Uses to those that they refer to. Each
	// segment of a path has its own entry. There are also entries for:
	//   - the name after a dot: a field, belief, variant, function of a tool, library function
	//     called as a method (x.f(y) is f(x, y)), or get, set and checkpoint of a belief;
	//   - the names in the braces of records, summon, run and children;
	//   - the names of patterns, types and tools.
	Defs map[*syntax.Ident]*Object
	Uses map[*syntax.Ident]*Object

	// Unwraps contains each TryExpr and CatchExpr whose operand is a Result: try returns the value
	// in Ok and fails with the error in Err. It never contains a CatchExpr without a body, which
	// turns a failure into a Result.
	Unwraps map[syntax.Expr]bool

	// Captures holds the variables that a closure captures, in the order of their first use.
	Captures map[*syntax.ClosureExpr][]*Object
}

// Module is a file and its declarations.
type Module struct {
	Path    string // such as "db::rows"; "" for the first file
	File    *source.File
	Tree    *syntax.File
	Parent  *Module            // nil for the first file
	Modules map[string]*Module // declared with mod
	Objects map[string]*Object // declared in it, without those it uses

	pub      bool
	object   *Object            // this module as an object
	names    map[string]*Object // cache of lookups through ::*
	aliases  map[string]*use    // used by name
	uses     []*use
	globbed  bool                 // whether it uses something with ::*
	variants map[string][]*Object // usable without the name of their enum
}

// ObjectKind is the kind of an object.
type ObjectKind uint8

// The kinds of objects.
const (
	Variable       ObjectKind = iota // in let, for, patterns, catch; Node is the *syntax.Ident
	Parameter                        // of functions, closures, handlers; Node is the *syntax.Param
	Belief                           // of an agent; Node is the *syntax.Field
	BeliefMethod                     // get, set and checkpoint of a belief
	Const                            // Node is the *syntax.ConstDecl, nil in the library (see Value)
	Function                         // Node is the *syntax.FuncDecl
	LibraryFunc                      // see Library
	ToolName                         // a tool of the library
	ToolFunc                         // see Library and Tool
	RecordName                       // Node is the *syntax.RecordDecl, nil in the library
	RecordField                      // Node is the *syntax.Field, nil in the library
	EnumName                         // Node is the *syntax.EnumDecl, nil in the library
	VariantName                      // Node is the *syntax.Variant, nil in the library
	TypeParam                        // Node is the *syntax.Ident
	AgentName                        // Node is the *syntax.AgentDecl
	SupervisorName                   // Node is the *syntax.SupervisorDecl
	ModuleName                       // Node is the *syntax.ModDecl
	ChildName                        // child of a supervisor, seen by its siblings; Node is the *syntax.Child
)

// Object is a named entity.
type Object struct {
	Kind   ObjectKind
	Name   string
	Span   source.Span // of the declared name; invalid in the library
	Node   syntax.Node // its declaration, see ObjectKind
	Module *Module     // nil in the library
	Pub    bool

	// Type is the type of the value. For a record, an enum or a type parameter it is the declared
	// type, for an agent the type of its handle, for a field the declared one. It is nil for
	// modules, supervisors and tools.
	Type *types.Type

	Index    int  // of a belief, a field or a variant
	Captured bool // of a Variable or Parameter: captured by a closure
	Assigned bool // of a Variable or Parameter: assigned after its declaration

	Library *library.Function // of a LibraryFunc or ToolFunc: one of its overloads
	Tool    *library.Tool     // of a ToolName or ToolFunc
	Value   any               // of a Const of the library: int64 or float64
	Doc     string            // of an object of the library
	Of      *Module           // of a ModuleName
	Parent  *Object           // of a belief, a field or a variant

	params  []*types.Type // type parameters of a function
	state   uint8         // of a const or an agent: unseen, active or done
	scope   typeScope     // of a function
	body    *body         // of a variable: where it is declared
	members map[string]*Object
}

// Agent is a declared agent.
type Agent struct {
	Object   *Object
	Decl     *syntax.AgentDecl
	Beliefs  []*Object   // in source order
	Tools    []string    // names of the tools it uses
	Message  *types.Type // type of its messages; nil if it takes none
	Output   *types.Type // type it yields; Unit if it yields nothing
	Receives bool        // has a receives clause

	yields    bool // yields something
	unhandled bool // its missing on error has been reported
}

// Belief returns the belief with this name, nil if there is none.
func (a *Agent) Belief(name string) *Object { return a.Object.members[name] }

// Supervisor is a declared supervisor.
type Supervisor struct {
	Object   *Object
	Decl     *syntax.SupervisorDecl
	Strategy Strategy
	Children []*Child // in source order
}

// Strategy determines which siblings restart together with a child.
type Strategy uint8

// The strategies.
const (
	OneForOne Strategy = iota
	OneForAll
	RestForOne
)

// Restart determines when a child restarts.
type Restart uint8

// The restart policies.
const (
	Permanent Restart = iota
	Transient
	Temporary
)

// Child is a child of a supervisor. One of Agent, Supervisor and Process is set.
type Child struct {
	Node       *syntax.Child
	Agent      *Agent
	Supervisor *Supervisor
	Process    string  // name of an agent in the project's file
	Name       *Object // nil without a name of its own
	Restart    Restart
	Beliefs    []*syntax.FieldInit // initial values
}

// Entry is the agent or the supervisor that the program runs.
type Entry struct {
	Decl       *syntax.RunDecl
	Agent      *Agent // one of Agent and Supervisor is set
	Supervisor *Supervisor
}
