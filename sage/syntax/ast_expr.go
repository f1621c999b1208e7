package syntax

import "github.com/coppice-dev/coppice/sage/source"

// The kinds of literals.
type (
	// IntLit is an integer. It includes a preceding minus unless something binds tighter, so that
	// the smallest integer can be written.
	IntLit struct {
		source.Span
		Value int64
	}
	// FloatLit is a number with a decimal point.
	FloatLit struct {
		source.Span
		Value float64
		Text  string // source text, with its minus
	}
	// BoolLit is true or false.
	BoolLit struct {
		source.Span
		Value bool
	}
	// StringLit is a string without interpolation. Text is the source text with its quotes. If it
	// is "", the printer derives it from Value.
	StringLit struct {
		source.Span
		Value string
		Text  string
	}
	// TemplateLit is a string with interpolations. Parts[i] precedes Exprs[i], so there is one more
	// part than there are expressions.
	TemplateLit struct {
		source.Span
		Parts []TemplatePart
		Exprs []Expr
	}
	// ListLit is [a, b].
	ListLit struct {
		source.Span
		Elems []Expr
	}
	// MapLit is {k: v, …}.
	MapLit struct {
		source.Span
		Entries []*MapEntry
	}
	// TupleLit is (a, b). Without elements it is the unit value.
	TupleLit struct {
		source.Span
		Elems []Expr
	}
	// RecordLit is Name { field: value, … }.
	RecordLit struct {
		source.Span
		Name  *Path
		Inits []*FieldInit
	}
	// ClosureExpr is |x: T, y| body.
	ClosureExpr struct {
		source.Span
		Params []*Param
		Body   Expr
	}
)

// TemplatePart is the text before, between or after interpolations. Text is the source text without
// quotes and braces. If it is "", the printer derives it from Value.
type TemplatePart struct {
	source.Span
	Value string
	Text  string
}

// MapEntry is key: value.
type MapEntry struct {
	source.Span
	Key, Value Expr
}

// Operators, calls and accesses.
type (
	// SelfExpr is self.
	SelfExpr struct{ source.Span }
	// ParenExpr is (x).
	ParenExpr struct {
		source.Span
		X Expr
	}
	// UnaryExpr is -x or !x.
	UnaryExpr struct {
		source.Span
		Op Kind // Sub or Not
		X  Expr
	}
	// BinaryExpr is x op y.
	BinaryExpr struct {
		source.Span
		Op   Kind
		X, Y Expr
	}
	// CallExpr is f(a, b). Fun is a FieldExpr for a method call.
	CallExpr struct {
		source.Span
		Fun  Expr
		Args []Expr
	}
	// FieldExpr is x.name.
	FieldExpr struct {
		source.Span
		X    Expr
		Name *Ident
	}
	// ElemExpr is x.0, an element of a tuple.
	ElemExpr struct {
		source.Span
		X     Expr
		Index int
	}
	// IndexExpr is x[i].
	IndexExpr struct {
		source.Span
		X, Index Expr
	}
)

// Control flow.
type (
	// BlockExpr is a block used as an expression.
	BlockExpr struct{ *Block }
	// IfExpr is if cond { } else { }, as a statement or an expression. Else is nil, an IfExpr or a
	// BlockExpr.
	IfExpr struct {
		source.Span
		Cond Expr
		Then *Block
		Else Expr
	}
	// MatchExpr is match x { pattern => body, … }.
	MatchExpr struct {
		source.Span
		X    Expr
		Arms []*MatchArm
	}
	// BreakExpr is break.
	BreakExpr struct{ source.Span }
	// ContinueExpr is continue.
	ContinueExpr struct{ source.Span }
	// ReturnExpr is return or return x. Value is nil if there is none.
	ReturnExpr struct {
		source.Span
		Value Expr
	}
	// TryExpr is try x.
	TryExpr struct {
		source.Span
		X Expr
	}
	// CatchExpr is x catch { }, x catch(e) { }, or catch x { }, catch x as e { }.
	CatchExpr struct {
		source.Span
		Prefix bool // whether catch comes first
		X      Expr
		Err    *Ident // name of the error, nil if there is none
		Body   *Block // nil for catch x;, whose value is a Result
	}
	// FailExpr is fail x.
	FailExpr struct {
		source.Span
		X Expr
	}
	// RetryExpr is retry(n, delay: ms, on: kinds) { }.
	RetryExpr struct {
		source.Span
		Count, Delay, On Expr // Delay and On may be nil
		Body             *Block
	}
)

// MatchArm is pattern if guard => body.
type MatchArm struct {
	source.Span
	Pattern Pattern
	Guard   Expr // nil if there is none
	Body    Expr
}

// Operations of agents.
type (
	// SummonExpr is summon Agent { belief: value, … }.
	SummonExpr struct {
		source.Span
		Agent *Path
		Inits []*FieldInit
	}
	// AwaitExpr is await x or await x timeout(ms).
	AwaitExpr struct {
		source.Span
		X       Expr
		Timeout Expr // nil if there is none
	}
	// SendExpr is send(to, message).
	SendExpr struct {
		source.Span
		To, Message Expr
	}
	// ReceiveExpr is receive().
	ReceiveExpr struct{ source.Span }
	// YieldExpr is yield(x) or yield().
	YieldExpr struct {
		source.Span
		Value Expr // nil if there is none
	}
	// ReplyExpr is reply(x).
	ReplyExpr struct {
		source.Span
		Value Expr
	}
	// TraceExpr is trace(x) or trace x.
	TraceExpr struct {
		source.Span
		Value Expr
	}
	// CheckpointExpr is checkpoint().
	CheckpointExpr struct{ source.Span }
	// DivineExpr is divine(prompt) or divine(prompt -> T).
	DivineExpr struct {
		source.Span
		Infer  bool // written as infer, its former name
		Prompt Expr
		Type   Type // nil if omitted
	}
	// BadExpr stands for an expression with a syntax error.
	BadExpr struct{ source.Span }
)

func (*Ident) exprNode()          {}
func (*Path) exprNode()           {}
func (*IntLit) exprNode()         {}
func (*FloatLit) exprNode()       {}
func (*BoolLit) exprNode()        {}
func (*StringLit) exprNode()      {}
func (*TemplateLit) exprNode()    {}
func (*ListLit) exprNode()        {}
func (*MapLit) exprNode()         {}
func (*TupleLit) exprNode()       {}
func (*RecordLit) exprNode()      {}
func (*ClosureExpr) exprNode()    {}
func (*SelfExpr) exprNode()       {}
func (*ParenExpr) exprNode()      {}
func (*UnaryExpr) exprNode()      {}
func (*BinaryExpr) exprNode()     {}
func (*CallExpr) exprNode()       {}
func (*FieldExpr) exprNode()      {}
func (*ElemExpr) exprNode()       {}
func (*IndexExpr) exprNode()      {}
func (*BlockExpr) exprNode()      {}
func (*IfExpr) exprNode()         {}
func (*MatchExpr) exprNode()      {}
func (*BreakExpr) exprNode()      {}
func (*ContinueExpr) exprNode()   {}
func (*ReturnExpr) exprNode()     {}
func (*TryExpr) exprNode()        {}
func (*CatchExpr) exprNode()      {}
func (*FailExpr) exprNode()       {}
func (*RetryExpr) exprNode()      {}
func (*SummonExpr) exprNode()     {}
func (*AwaitExpr) exprNode()      {}
func (*SendExpr) exprNode()       {}
func (*ReceiveExpr) exprNode()    {}
func (*YieldExpr) exprNode()      {}
func (*ReplyExpr) exprNode()      {}
func (*TraceExpr) exprNode()      {}
func (*CheckpointExpr) exprNode() {}
func (*DivineExpr) exprNode()     {}
func (*BadExpr) exprNode()        {}
