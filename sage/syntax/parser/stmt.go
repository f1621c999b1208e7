package parser

import (
	"strings"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

// atStmt reports whether the current token starts a statement, or an expression that is mostly used
// as one.
func (p *parser) atStmt() bool {
	switch p.kind {
	case syntax.Let, syntax.If, syntax.For, syntax.While, syntax.Loop, syntax.Match, syntax.Return, syntax.Break,
		syntax.Continue, syntax.SpanKeyword, syntax.Yield, syntax.Try, syntax.Send, syntax.Trace, syntax.Checkpoint:
		return true
	case syntax.Mock:
		return p.atMock()
	}
	return false
}

func (p *parser) atMock() bool {
	next := p.ahead(1)
	return next == syntax.Divine || next == syntax.Infer || next == syntax.Tool && p.ahead(2).IsName()
}

// block parses { statements }.
func (p *parser) block(where string) *syntax.Block {
	start := p.start()
	if p.kind != syntax.LBrace {
		p.missing(syntax.LBrace, where, "")
		return &syntax.Block{Span: p.finish(start)}
	}
	opening := p.at
	p.next()
	return p.blockRest(opening, &syntax.Block{})
}

// blockRest parses the statements after the brace with index opening.
func (p *parser) blockRest(opening int, b *syntax.Block) *syntax.Block {
	defer p.inside()()
	defer p.leave()
	if p.enter() {
		for !p.atEnd() && !p.atMember() && !(p.atMargin() && p.atDecl()) {
			before := p.at
			p.stmt(b)
			if p.at == before {
				p.syncStmt()
			}
			if p.at == before {
				p.next()
			}
		}
	}
	p.closing(opening)
	b.Span = p.finish(p.tokens[opening].Start)
	return b
}

// atMember reports whether a handler or a persistent belief starts here: then the current block is
// not closed.
func (p *parser) atMember() bool {
	return p.kind == syntax.On && p.ahead(1).IsWord() && p.onNewLine() || p.kind == syntax.At && p.nextIs("persistent")
}

// nextIs reports whether the next token is this word, which must not be a keyword.
func (p *parser) nextIs(word string) bool {
	t := p.tokens[min(p.at+1, len(p.tokens)-1)]
	return t.Kind == syntax.Name && p.file.Text[t.Start:t.End] == word
}

// syncStmt skips to the presumed start of the next statement.
func (p *parser) syncStmt() {
	p.skip(func() bool { return p.kind == syntax.Semicolon || p.onNewLine() && p.atStmt() })
	p.got(syntax.Semicolon)
}

// stmt parses a statement into a block.
func (p *parser) stmt(b *syntax.Block) {
	start := p.start()
	var s syntax.Stmt
	switch {
	case p.kind == syntax.Semicolon:
		p.next()
		return
	case p.kind == syntax.Let:
		s = p.letStmt(start)
	case p.kind == syntax.For:
		p.next()
		f := &syntax.ForStmt{Pattern: p.pattern()}
		p.expect(syntax.In, "and what to go through")
		f.X = p.headExpr()
		f.Body = p.block("before the body of the loop")
		f.Span = p.finish(start)
		s = f
	case p.kind == syntax.While:
		p.next()
		w := &syntax.WhileStmt{Cond: p.condition()}
		w.Body = p.block("before the body of the loop")
		w.Span = p.finish(start)
		s = w
	case p.kind == syntax.Loop:
		p.next()
		l := &syntax.LoopStmt{Body: p.block("before the body of the loop")}
		l.Span = p.finish(start)
		s = l
	case p.kind == syntax.SpanKeyword:
		p.next()
		n := &syntax.SpanStmt{Name: p.headExpr()}
		n.Body = p.block("before the body of the span")
		n.Span = p.finish(start)
		s = n
	case p.kind == syntax.Mock && p.atMock():
		s = p.mockStmt(start)
	case p.atDecl():
		p.fault(p.here(), syntax.CodeMisplaced, "`"+p.text()+"` cannot stand in a block",
			"declare it at the top of the file")
		p.decl()
		s = &syntax.BadStmt{Span: p.finish(start)}
	default:
		p.exprStmt(b, start)
		return
	}
	b.Stmts = append(b.Stmts, s)
}

func (p *parser) letStmt(start int32) syntax.Stmt {
	p.next()
	l := &syntax.LetStmt{}
	if p.is("mut") && (p.ahead(1).IsName() || p.ahead(1) == syntax.LParen) {
		l.Mut = true
		p.next()
	}
	l.Pattern = p.letPattern()
	if p.got(syntax.Colon) {
		l.Type = p.typ()
	}
	if p.kind == syntax.Semicolon || p.kind != syntax.Assign && p.onNewLine() {
		p.missing(syntax.Assign, "and a value", "a variable always has a value")
		l.Value = &syntax.BadExpr{Span: p.bad()}
		p.semicolon("after the statement")
	} else if p.expect(syntax.Assign, "and a value") || p.atExpr() {
		l.Value = p.expr()
		p.semicolon("after the statement")
	} else {
		p.syncStmt()
		l.Value = &syntax.BadExpr{Span: p.bad()}
	}
	l.Span = p.finish(start)
	return l
}

// letPattern parses the pattern of let. A keyword there is reported as a bad name, not as a bad
// pattern.
func (p *parser) letPattern() syntax.Pattern {
	if p.kind.IsWord() && !p.kind.IsName() && p.kind != syntax.True && p.kind != syntax.False {
		start := p.start()
		name := p.name("of the variable")
		return &syntax.BindPat{Span: p.finish(start), Name: name}
	}
	return p.pattern()
}

func (p *parser) mockStmt(start int32) syntax.Stmt {
	p.next()
	m := &syntax.MockStmt{Infer: p.kind == syntax.Infer}
	if p.got(syntax.Tool) {
		m.Tool = p.name("of the tool")
		p.expect(syntax.Dot, "and the function of the tool")
		m.Func = p.word("of the function of the tool")
	} else {
		p.next()
	}
	if p.kind == syntax.FatArrow || p.kind == syntax.Assign {
		p.fault(p.here(), syntax.CodeUnexpected, "expected `->` before the answer, found `"+p.text()+"`", "")
		p.next()
	} else {
		p.expect(syntax.Arrow, "and the answer")
	}
	m.Value = p.expr()
	p.semicolon("after the statement")
	m.Span = p.finish(start)
	return m
}

// exprStmt parses an expression or an assignment.
func (p *parser) exprStmt(b *syntax.Block, start int32) {
	bad := p.foreignStmt()
	if !bad && !p.atExpr() {
		p.unexpected("a statement", "")
		p.syncStmt()
		bad = true
	}
	if bad {
		b.Stmts = append(b.Stmts, &syntax.BadStmt{Span: p.finish(start)})
		return
	}
	var x syntax.Expr
	switch p.kind {
	case syntax.If:
		x = p.ifExpr()
	case syntax.Match:
		x = p.matchExpr()
	case syntax.LBrace:
		x = p.braced(true)
		if _, ok := x.(*syntax.BlockExpr); !ok {
			x = p.exprFrom(x, start)
		}
	default:
		x = p.expr()
	}
	p.exprStmtRest(b, start, x)
}

// exprStmtRest parses the rest of a statement after its first expression.
func (p *parser) exprStmtRest(b *syntax.Block, start int32, x syntax.Expr) {
	switch {
	case p.kind >= syntax.Assign && p.kind <= syntax.ConcatAssign && !blockLike(x):
		a := &syntax.AssignStmt{Target: x, Op: p.kind}
		if !assignable(x) {
			p.fault(x.Extent(), syntax.CodeTarget, "this cannot be assigned to",
				"a variable, a field and an element can: x = v, self.f = v, x.f = v, x[i] = v")
		}
		p.next()
		a.Value = p.expr()
		p.semicolon("after the statement")
		a.Span = p.finish(start)
		b.Stmts = append(b.Stmts, a)
	case p.kind == syntax.RBrace:
		b.Tail = x
	default:
		if !p.got(syntax.Semicolon) && !endsWithBlock(x) {
			p.noSemicolon(x)
		}
		b.Stmts = append(b.Stmts, &syntax.ExprStmt{Span: p.finish(start), X: x})
	}
}

// noSemicolon reports an expression that continues where its semicolon is expected.
func (p *parser) noSemicolon(x syntax.Expr) {
	if name, ok := x.(*syntax.Ident); ok && !p.onNewLine() {
		help := ""
		switch p.kind {
		case syntax.String, syntax.TemplateHead, syntax.Int, syntax.Float:
			help = "arguments are written in parentheses: " + truncate(name.Name) + "(…)"
		case syntax.Colon:
			help = "a variable is made with let: let " + truncate(name.Name) + " = …;"
		}
		if help != "" {
			p.unexpected("`;` after the statement", help)
			p.syncStmt()
			return
		}
	}
	p.semicolon("after the statement")
}

// blockLike reports whether an expression at the start of a statement needs no semicolon.
func blockLike(x syntax.Expr) bool {
	switch x.(type) {
	case *syntax.IfExpr, *syntax.MatchExpr, *syntax.BlockExpr:
		return true
	}
	return false
}

// endsWithBlock reports whether an expression needs no semicolon after it.
func endsWithBlock(x syntax.Expr) bool {
	switch x := x.(type) {
	case *syntax.CatchExpr:
		return x.Body != nil
	case *syntax.RetryExpr:
		return true
	case *syntax.TryExpr:
		return endsWithBlock(x.X)
	}
	return blockLike(x)
}

func assignable(x syntax.Expr) bool {
	switch x.(type) {
	case *syntax.Ident, *syntax.FieldExpr, *syntax.IndexExpr, *syntax.ElemExpr, *syntax.BadExpr:
		return true
	}
	return false
}

// foreignStmt reports keywords of other languages and of earlier versions of Sage that start a
// statement.
func (p *parser) foreignStmt() bool {
	if p.kind != syntax.Name || p.onNewLineAhead() {
		return false
	}
	next, word := p.ahead(1), p.text()
	follows := next == syntax.Name
	if word == "emit" || word == "throw" {
		follows = next != syntax.LParen && startsExpr(next)
	}
	meant := foreignStmts[word]
	if meant == "" || !follows {
		return false
	}
	p.foreignWord(meant)
	p.next()
	p.syncStmt()
	return true
}

// foreignStmts maps statement keywords of other languages to those of Sage.
var foreignStmts = map[string]string{
	"var": "let", "val": "let", "auto": "let", "local": "let", "mut": "let",
	"emit": "yield(…)", "throw": "fail", "raise": "fail", "panic": "fail",
	"elif": "else if", "elsif": "else if", "elseif": "else if", "switch": "match", "case": "match",
	"foreach": "for", "def": "fn", "func": "fn", "function": "fn",
}

// onNewLineAhead reports whether the next token is the first of its line.
func (p *parser) onNewLineAhead() bool {
	if p.at+1 >= len(p.tokens) {
		return true
	}
	return strings.Contains(p.file.Text[p.tokens[p.at].End:p.tokens[p.at+1].Start], "\n")
}

// from returns the span from the start of a node to the previous token.
func (p *parser) from(x syntax.Node) source.Span { return p.finish(x.Extent().Start) }
