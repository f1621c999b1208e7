package syntax

import (
	"strings"

	"github.com/coppice-dev/coppice/sage/source"
)

// Node is a part of a program. Extent is where it stands, from its first to
// behind its last token.
type Node interface {
	Extent() source.Span
}

// The kinds of nodes.
type (
	// Decl stands at the top of a file.
	Decl interface {
		Node
		declNode()
	}
	// Stmt stands in a block.
	Stmt interface {
		Node
		stmtNode()
	}
	// Expr has a value.
	Expr interface {
		Node
		exprNode()
	}
	// Pattern matches a value and takes it apart.
	Pattern interface {
		Node
		patternNode()
	}
	// Type is a type as it is written.
	Type interface {
		Node
		typeNode()
	}
)

// File is a whole file.
type File struct {
	source.Span
	Decls    []Decl
	Comments []Comment // in their order
}

// Comment is a comment, which always goes to the end of its line. Text
// begins with // and has no blanks at its end.
type Comment struct {
	source.Span
	Text string
}

// Ident is a name.
type Ident struct {
	source.Span
	Name string
}

// Path is a name with what it is qualified by, a::b::c. In an expression a
// single name without type arguments is an Ident, in other places (types,
// summon, run, children, records) a Path of one segment.
type Path struct {
	source.Span
	Segments []Segment
}

// Segment is a name of a path, and the types it is applied to: a<T> in types,
// a::<T> in expressions.
type Segment struct {
	Name *Ident
	Args []Type
}

// Last is the last name of the path.
func (p *Path) Last() *Ident { return p.Segments[len(p.Segments)-1].Name }

// String is the path without type arguments.
func (p *Path) String() string {
	names := make([]string, len(p.Segments))
	for i, s := range p.Segments {
		names[i] = s.Name.Name
	}
	return strings.Join(names, "::")
}

// The types.
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
	// FuncType is Fn(T, U) -> R. Result is nil where it is left out.
	FuncType struct {
		source.Span
		Params []Type
		Result Type
	}
	// BadType stands where a type could not be read.
	BadType struct{ source.Span }
)

func (*NamedType) typeNode() {}
func (*TupleType) typeNode() {}
func (*FuncType) typeNode()  {}
func (*BadType) typeNode()   {}

// The patterns.
type (
	// WildcardPat is _.
	WildcardPat struct{ source.Span }
	// BindPat is a name that begins with a small letter: it matches all and
	// names it.
	BindPat struct {
		source.Span
		Name *Ident
	}
	// LiteralPat is a number (also a negative one), a string or a bool.
	LiteralPat struct {
		source.Span
		Value Expr // IntLit, FloatLit, StringLit or BoolLit
	}
	// TuplePat is (p, q).
	TuplePat struct {
		source.Span
		Elems []Pattern
	}
	// VariantPat is a variant of an enum, alone or with what it carries:
	// None, Some(x), Shape::Circle(r).
	VariantPat struct {
		source.Span
		Name   *Path
		Args   []Pattern
		Dotted bool // written Enum.Variant
	}
	// BadPat stands where a pattern could not be read.
	BadPat struct{ source.Span }
)

func (*WildcardPat) patternNode() {}
func (*BindPat) patternNode()     {}
func (*LiteralPat) patternNode()  {}
func (*TuplePat) patternNode()    {}
func (*VariantPat) patternNode()  {}
func (*BadPat) patternNode()      {}

// Block is statements in braces. Tail is the expression at its end that no
// semicolon follows: the value of the block; nil if there is none.
type Block struct {
	source.Span
	Stmts []Stmt
	Tail  Expr
}

// The statements.
type (
	// LetStmt is let pattern: T = value;
	LetStmt struct {
		source.Span
		Mut     bool // written let mut, which means the same
		Pattern Pattern
		Type    Type // nil if it is not written
		Value   Expr
	}
	// AssignStmt is target = value; or with +=, -=, *=, /=, %=, ++=. The
	// target is a name, a field or an element.
	AssignStmt struct {
		source.Span
		Target Expr
		Op     Kind // Assign, AddAssign, …
		Value  Expr
	}
	// ExprStmt is an expression whose value is not used. After one that ends
	// with a block the semicolon may be missing.
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
		Infer      bool   // written mock infer
		Value      Expr
	}
	// BadStmt stands where a statement could not be read.
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
