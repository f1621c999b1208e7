package syntax

import (
	"reflect"

	"github.com/coppice-dev/coppice/sage/source"
)

// Inspect calls visit for a node and, where it returns true, for what the node
// consists of, in the order of the text.
func Inspect(n Node, visit func(Node) bool) {
	if visit(n) {
		VisitChildren(n, func(child Node) { Inspect(child, visit) })
	}
}

// VisitChildren calls visit for the nodes of which n directly consists, in the order
// of the text.
func VisitChildren(n Node, visit func(Node)) {
	switch n := n.(type) {
	case *File:
		each(n.Decls, visit)
	case *Path:
		for _, s := range n.Segments {
			visit(s.Name)
			each(s.Args, visit)
		}
	case *NamedType:
		visit(n.Name)
	case *TupleType:
		each(n.Elems, visit)
	case *FuncType:
		each(n.Params, visit)
		if n.Result != nil {
			visit(n.Result)
		}
	case *BindPat:
		visit(n.Name)
	case *LiteralPat:
		visit(n.Value)
	case *TuplePat:
		each(n.Elems, visit)
	case *VariantPat:
		visit(n.Name)
		each(n.Args, visit)
	case *Block:
		each(n.Stmts, visit)
		if n.Tail != nil {
			visit(n.Tail)
		}
	case Decl:
		declChildren(n, visit)
	case Stmt:
		stmtChildren(n, visit)
	case Expr:
		exprChildren(n, visit)
	default:
		partChildren(n, visit)
	}
}

func each[T Node](nodes []T, visit func(Node)) {
	for _, n := range nodes {
		visit(n)
	}
}

// maybe visits a name that may be missing.
func maybe(id *Ident, visit func(Node)) {
	if id != nil {
		visit(id)
	}
}

func maybeType(t Type, visit func(Node)) {
	if t != nil {
		visit(t)
	}
}

func maybeExpr(x Expr, visit func(Node)) {
	if x != nil {
		visit(x)
	}
}

func maybeBlock(b *Block, visit func(Node)) {
	if b != nil {
		visit(b)
	}
}

func declChildren(n Decl, visit func(Node)) {
	switch n := n.(type) {
	case *ModDecl:
		visit(n.Name)
	case *UseDecl:
		each(n.Path, visit)
		maybe(n.Alias, visit)
		for _, name := range n.Names {
			visit(name.Name)
			maybe(name.Alias, visit)
		}
	case *RecordDecl:
		visit(n.Name)
		each(n.TypeParams, visit)
		each(n.Fields, visit)
	case *EnumDecl:
		visit(n.Name)
		each(n.TypeParams, visit)
		each(n.Variants, visit)
	case *ConstDecl:
		visit(n.Name)
		maybeType(n.Type, visit)
		visit(n.Value)
	case *FuncDecl:
		each(n.Attrs, visit)
		visit(n.Name)
		each(n.TypeParams, visit)
		each(n.Params, visit)
		maybeType(n.Result, visit)
		maybeBlock(n.Body, visit)
	case *AgentDecl:
		visit(n.Name)
		each(n.Clauses, visit)
		each(n.Members, visit)
	case *SupervisorDecl:
		visit(n.Name)
		each(n.Members, visit)
	case *TestDecl:
		each(n.Attrs, visit)
		visit(n.Name)
		visit(n.Body)
	case *RunDecl:
		visit(n.Target)
		each(n.Inits, visit)
	case *ToolDecl:
		visit(n.Name)
		each(n.Funcs, visit)
	case *ProtocolDecl:
		visit(n.Name)
		each(n.Steps, visit)
	case *EffectDecl:
		visit(n.Name)
		visit(n.Effect)
		each(n.Inits, visit)
	}
}

func partChildren(n Node, visit func(Node)) {
	switch n := n.(type) {
	case *Variant:
		visit(n.Name)
		each(n.Payload, visit)
	case *Param:
		visit(n.Name)
		maybeType(n.Type, visit)
	case *Attr:
		visit(n.Name)
		if n.Value != nil {
			visit(n.Value)
		}
	case *FieldInit:
		visit(n.Name)
		visit(n.Value)
	case *ProtocolStep:
		visit(n.From)
		visit(n.To)
		visit(n.Message)
	case *ReceivesClause:
		visit(n.Type)
	case *FollowsClause:
		for _, r := range n.Roles {
			visit(r.Protocol)
			visit(r.Role)
		}
	case *UseClause:
		each(n.Tools, visit)
	case *Field:
		visit(n.Name)
		visit(n.Type)
		maybeExpr(n.Value, visit)
	case *Handler:
		visit(n.Word)
		if n.Param != nil {
			visit(n.Param)
		}
		visit(n.Body)
	case *ChildrenBlock:
		each(n.Children, visit)
	case *Child:
		if n.Process != nil {
			visit(n.Process)
		} else {
			visit(n.Target)
		}
		if n.Name != nil {
			visit(n.Name)
		}
		each(n.Parts, visit)
	case *EffectBinding:
		visit(n.Effect)
		visit(n.Handler)
	case *MapEntry:
		visit(n.Key)
		visit(n.Value)
	case *MatchArm:
		visit(n.Pattern)
		maybeExpr(n.Guard, visit)
		visit(n.Body)
	}
}

func stmtChildren(n Stmt, visit func(Node)) {
	switch n := n.(type) {
	case *LetStmt:
		visit(n.Pattern)
		maybeType(n.Type, visit)
		visit(n.Value)
	case *AssignStmt:
		visit(n.Target)
		visit(n.Value)
	case *ExprStmt:
		visit(n.X)
	case *ForStmt:
		visit(n.Pattern)
		visit(n.X)
		visit(n.Body)
	case *WhileStmt:
		visit(n.Cond)
		visit(n.Body)
	case *LoopStmt:
		visit(n.Body)
	case *SpanStmt:
		visit(n.Name)
		visit(n.Body)
	case *MockStmt:
		maybe(n.Tool, visit)
		maybe(n.Func, visit)
		visit(n.Value)
	}
}

func exprChildren(n Expr, visit func(Node)) {
	switch n := n.(type) {
	case *TemplateLit:
		each(n.Exprs, visit)
	case *ListLit:
		each(n.Elems, visit)
	case *MapLit:
		each(n.Entries, visit)
	case *TupleLit:
		each(n.Elems, visit)
	case *RecordLit:
		visit(n.Name)
		each(n.Inits, visit)
	case *ClosureExpr:
		each(n.Params, visit)
		visit(n.Body)
	case *ParenExpr:
		visit(n.X)
	case *UnaryExpr:
		visit(n.X)
	case *BinaryExpr:
		visit(n.X)
		visit(n.Y)
	case *CallExpr:
		visit(n.Fun)
		each(n.Args, visit)
	case *FieldExpr:
		visit(n.X)
		visit(n.Name)
	case *ElemExpr:
		visit(n.X)
	case *IndexExpr:
		visit(n.X)
		visit(n.Index)
	case *BlockExpr:
		visit(n.Block)
	case *IfExpr:
		visit(n.Cond)
		visit(n.Then)
		maybeExpr(n.Else, visit)
	case *MatchExpr:
		visit(n.X)
		each(n.Arms, visit)
	case *ReturnExpr:
		maybeExpr(n.Value, visit)
	case *TryExpr:
		visit(n.X)
	case *CatchExpr:
		visit(n.X)
		maybe(n.Err, visit)
		maybeBlock(n.Body, visit)
	case *FailExpr:
		visit(n.X)
	case *RetryExpr:
		visit(n.Count)
		maybeExpr(n.Delay, visit)
		maybeExpr(n.On, visit)
		visit(n.Body)
	case *SummonExpr:
		visit(n.Agent)
		each(n.Inits, visit)
	case *AwaitExpr:
		visit(n.X)
		maybeExpr(n.Timeout, visit)
	case *SendExpr:
		visit(n.To)
		visit(n.Message)
	case *YieldExpr:
		maybeExpr(n.Value, visit)
	case *ReplyExpr:
		visit(n.Value)
	case *TraceExpr:
		visit(n.Value)
	case *DivineExpr:
		visit(n.Prompt)
		maybeType(n.Type, visit)
	}
}

var (
	spanType     = reflect.TypeFor[source.Span]()
	commentsType = reflect.TypeFor[[]Comment]()
)

// Same reports whether two trees are the same, wherever they stand and
// whatever comments there are.
func Same(a, b Node) bool {
	return same(reflect.ValueOf(a), reflect.ValueOf(b))
}

func same(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	if a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Type() == commentsType {
			return true
		}
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if a.Type() == spanType {
			return true
		}
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Uint8:
		return a.Uint() == b.Uint()
	case reflect.Float64:
		return a.Float() == b.Float()
	}
	return false
}
