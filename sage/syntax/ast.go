package syntax

import (
	"strings"

	"github.com/coppice-dev/coppice/sage/source"
)

// Node is a part of a program. Extent returns its span, from the start of its first token to the
// end of its last one.
type Node interface {
	Extent() source.Span
}

// The kinds of nodes.
type (
	// Decl is a top-level declaration of a file.
	Decl interface {
		Node
		declNode()
	}
	// Stmt is a statement in a block.
	Stmt interface {
		Node
		stmtNode()
	}
	// Expr is an expression.
	Expr interface {
		Node
		exprNode()
	}
	// Pattern matches a value and destructures it.
	Pattern interface {
		Node
		patternNode()
	}
	// Type is a type as written in the source.
	Type interface {
		Node
		typeNode()
	}
)

// File is the tree of one source file.
type File struct {
	source.Span
	Decls    []Decl
	Comments []Comment // in source order
}

// Comment is a line comment. Text starts with // and has no trailing white space.
type Comment struct {
	source.Span
	Text string
}

// Ident is a name.
type Ident struct {
	source.Span
	Name string
}

// Path is a qualified name, a::b::c. In an expression a single name without type arguments is an
// Ident. In other places (types, summon, run, children, records) it is a Path of one segment.
type Path struct {
	source.Span
	Segments []Segment
}

// Segment is one name of a path with its type arguments: a<T> in types, a::<T> in expressions.
type Segment struct {
	Name *Ident
	Args []Type
}

// Last returns the last name of the path.
func (p *Path) Last() *Ident { return p.Segments[len(p.Segments)-1].Name }

// String returns the path without type arguments.
func (p *Path) String() string {
	names := make([]string, len(p.Segments))
	for i, s := range p.Segments {
		names[i] = s.Name.Name
	}
	return strings.Join(names, "::")
}

// The kinds of types.
type (
	// NamedType is Int, List<T>, a record, a type parameter, …
	NamedType struct {
		source.Span
		Name *Path
	}
	// TupleType is (T, U); without elements it is the unit type.
	TupleType struct {
		source.Span
		Elems []Type
	}
	// FuncType is Fn(T, U) -> R. Result is nil if omitted.
	FuncType struct {
		source.Span
		Params []Type
		Result Type
	}
	// BadType stands for a type with a syntax error.
	BadType struct{ source.Span }
)

func (*NamedType) typeNode() {}
func (*TupleType) typeNode() {}
func (*FuncType) typeNode()  {}
func (*BadType) typeNode()   {}

// The kinds of patterns.
type (
	// WildcardPat is _.
	WildcardPat struct{ source.Span }
	// BindPat is a lower-case name. It matches any value and binds it.
	BindPat struct {
		source.Span
		Name *Ident
	}
	// LiteralPat is a number, possibly negative, a string or a bool.
	LiteralPat struct {
		source.Span
		Value Expr // IntLit, FloatLit, StringLit or BoolLit
	}
	// TuplePat is (p, q).
	TuplePat struct {
		source.Span
		Elems []Pattern
	}
	// VariantPat is a variant of an enum, with or without a payload: None, Some(x),
	// Shape::Circle(r).
	VariantPat struct {
		source.Span
		Name   *Path
		Args   []Pattern
		Dotted bool // written as Enum.Variant
	}
	// BadPat stands for a pattern with a syntax error.
	BadPat struct{ source.Span }
)

func (*WildcardPat) patternNode() {}
func (*BindPat) patternNode()     {}
func (*LiteralPat) patternNode()  {}
func (*TuplePat) patternNode()    {}
func (*VariantPat) patternNode()  {}
func (*BadPat) patternNode()      {}

// Block is a list of statements in braces. Tail is the last expression if no semicolon follows it:
// the value of the block. It is nil if there is none.
type Block struct {
	source.Span
	Stmts []Stmt
	Tail  Expr
}

// The kinds of statements.
type (
	// LetStmt is let pattern: T = value;
	LetStmt struct {
		source.Span
		Mut     bool // written as let mut, which means the same
		Pattern Pattern
		Type    Type // nil if omitted
		Value   Expr
	}
	// AssignStmt is target = value; or one of +=, -=, *=, /=, %=, ++=. The target is a name, a
	// field or an element.
	AssignStmt struct {
		source.Span
		Target Expr
		Op     Kind // Assign, AddAssign, …
		Value  Expr
	}
	// ExprStmt is an expression whose value is not used. The semicolon is optional after one that
	// ends with a block.
	ExprStmt struct {
		source.Span
		X Expr
	}
	// ForStmt is for pattern in x { }.
	ForStmt struct {
		source.Span
		Pattern Pattern
		X       Expr
		Body    *Block
	}
	// WhileStmt is while cond { }.
	WhileStmt struct {
		source.Span
		Cond Expr
		Body *Block
	}
	// LoopStmt is loop { }.
	LoopStmt struct {
		source.Span
		Body *Block
	}
	// SpanStmt is span name { }.
	SpanStmt struct {
		source.Span
		Name Expr
		Body *Block
	}
	// MockStmt is mock divine -> value; or mock tool T.f -> value;
	MockStmt struct {
		source.Span
		Tool, Func *Ident // nil for divine
		Infer      bool   // written as mock infer
		Value      Expr
	}
	// BadStmt stands for a statement with a syntax error.
	BadStmt struct{ source.Span }
)

func (*LetStmt) stmtNode()    {}
func (*AssignStmt) stmtNode() {}
func (*ExprStmt) stmtNode()   {}
func (*ForStmt) stmtNode()    {}
func (*WhileStmt) stmtNode()  {}
func (*LoopStmt) stmtNode()   {}
func (*SpanStmt) stmtNode()   {}
func (*MockStmt) stmtNode()   {}
func (*BadStmt) stmtNode()    {}
