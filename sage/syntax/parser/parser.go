// Package parser reads Sage programs: it makes tokens and a tree of a text, and
// reports what is wrong with its form.
package parser

import (
	"strings"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

const (
	// maxDiagnostics bounds the errors that are reported of one file.
	maxDiagnostics = 100
	// maxNesting bounds how deep brackets, blocks and types are nested, and
	// with it the stack of the parser.
	maxNesting = 500
	// maxHeight bounds how high the tree is, and with it the stack of all that
	// walks through it: a chain such as a + b + … grows it without nesting.
	maxHeight = 10_000
)

// Parse reads a file. It returns a tree for any text; where there are errors,
// the tree has Bad nodes, and names that could not be read are "".
func Parse(file *source.File) (*syntax.File, []diag.Diagnostic) {
	tokens, comments, diagnostics := Scan(file)
	p := parser{file: file, tokens: tokens, kind: tokens[0].Kind, diagnostics: diagnostics,
		errorLine: -1, errorIndex: -1}
	if len(diagnostics) >= maxDiagnostics {
		p.giveUp()
	}
	f := &syntax.File{Span: file.Span(0, len(file.Text)), Comments: comments}
	for p.kind != syntax.EOF {
		before := p.at
		if d := p.decl(); d != nil {
			f.Decls = append(f.Decls, d)
		}
		if p.at == before {
			p.next()
		}
	}
	diag.Sort(p.diagnostics)
	return f, p.diagnostics
}

type parser struct {
	file        *source.File
	tokens      []syntax.Token
	at          int         // index of the current token
	kind        syntax.Kind // of the current token
	diagnostics []diag.Diagnostic

	depth   int
	heights []height

	// head is set where a block follows the expression, so that its brace
	// cannot be that of a record: if x {}.
	head bool

	// Of the last error: its line, and where the parser was. What follows at
	// the same place is most likely its consequence.
	errorLine, errorIndex int

	// misaligned is the first block whose closing brace is not below its beginning:
	// if a brace is missing somewhere, it is likely there.
	misaligned source.Span
}

// height is the height of a subtree that is complete, and where it stands.
type height struct{ start, end, height int32 }

func (p *parser) next() {
	if p.at < len(p.tokens)-1 {
		p.at++
		p.kind = p.tokens[p.at].Kind
	}
}

// ahead is the kind of the nth token from the current one.
func (p *parser) ahead(n int) syntax.Kind {
	if p.at+n < len(p.tokens) {
		return p.tokens[p.at+n].Kind
	}
	return syntax.EOF
}

func (p *parser) start() int32 { return p.tokens[p.at].Start }

// end returns the end of the token before the current one.
func (p *parser) end() int32 {
	if p.at == 0 {
		return 0
	}
	return p.tokens[p.at-1].End
}

func (p *parser) text() string {
	t := p.tokens[p.at]
	return p.file.Text[t.Start:t.End]
}

// here is the span of the current token.
func (p *parser) here() source.Span {
	t := p.tokens[p.at]
	return source.Span{File: p.file, Start: t.Start, End: t.End}
}

// onNewLine reports whether the current token is the first one of its line.
func (p *parser) onNewLine() bool {
	return p.at == 0 || strings.IndexByte(p.file.Text[p.end():p.start()], '\n') >= 0
}

// atMargin reports whether nothing stands before the current token in its line.
func (p *parser) atMargin() bool {
	s := p.start()
	return s == 0 || p.file.Text[s-1] == '\n'
}

// finish is the span of a node that begins at start and is complete now.
func (p *parser) finish(start int32) source.Span {
	// A part that is missing stands where it is expected: behind the last token.
	h, end := int32(1), max(start, p.end())
	n := len(p.heights)
	for n > 0 && p.heights[n-1].start >= start {
		n--
		h = max(h, p.heights[n].height+1)
		end = max(end, p.heights[n].end)
	}
	p.heights = append(p.heights[:n], height{start, end, h})
	if h > maxHeight {
		p.tooDeep("this expression has too many parts in a row", "name some of its parts with let")
	}
	return source.Span{File: p.file, Start: start, End: end}
}

// enter goes one level deeper, and reports whether that is allowed. Each call
// needs a leave, allowed or not.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxNesting {
		p.tooDeep("this is nested more than 500 levels deep", "make a function or a name of the inner parts")
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// tooDeep gives up: what follows would be a consequence of it.
func (p *parser) tooDeep(message, help string) {
	if p.kind == syntax.EOF {
		return
	}
	p.report(p.here(), syntax.CodeDepth, message, help)
	p.giveUp()
}

func (p *parser) giveUp() {
	p.at = len(p.tokens) - 1
	p.kind = syntax.EOF
	p.errorIndex = p.at
}

// report adds an error, wherever the parser is. After too many it gives up.
func (p *parser) report(span source.Span, code, message, help string, related ...diag.Related) {
	p.diagnostics = append(p.diagnostics, diag.Diagnostic{Span: span, Code: code, Message: message, Help: help,
		Related: related})
	if len(p.diagnostics) >= maxDiagnostics {
		p.giveUp()
	}
}

// isNewError reports whether an error at the current token would be one of its own,
// and not a consequence of the last one or of a character that is no token.
func (p *parser) isNewError() bool {
	line := p.file.LineOf(int(p.start()))
	if p.kind == syntax.Invalid || p.at > 0 && p.tokens[p.at-1].Kind == syntax.Invalid || p.at == p.errorIndex ||
		line == p.errorLine {
		return false
	}
	p.errorLine, p.errorIndex = line, p.at
	return true
}

// fault reports an error at a span, if it is no consequence.
func (p *parser) fault(span source.Span, code, message, help string, related ...diag.Related) {
	if p.isNewError() {
		p.report(span, code, message, help, related...)
	}
}

// unexpected reports that something else is expected at the current token.
func (p *parser) unexpected(expected, help string) {
	found := article(p.kind)
	if p.kind.IsOperator() || p.kind.IsWord() {
		found = "`" + truncate(p.text()) + "`"
	}
	p.fault(p.here(), syntax.CodeUnexpected, "expected "+expected+", found "+found, help)
}

// truncate is a word that may be long, short.
func truncate(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

func article(k syntax.Kind) string {
	if k == syntax.EOF || k == syntax.TemplateMiddle || k == syntax.TemplateTail {
		return "the " + k.String()
	}
	return "a " + k.String()
}

// got takes a token if it is of this kind.
func (p *parser) got(k syntax.Kind) bool {
	if p.kind != k {
		return false
	}
	p.next()
	return true
}

// gotSeparator takes a comma or a semicolon, if there is one.
func (p *parser) gotSeparator() bool { return p.got(syntax.Comma) || p.got(syntax.Semicolon) }

// expect takes a token of this kind, or reports that it is missing. Where says
// what for, such as "after the condition".
func (p *parser) expect(k syntax.Kind, where string) bool {
	if p.got(k) {
		return true
	}
	p.missing(k, where, "")
	return false
}

// missing reports that a token is missing: behind the token before, where it
// would have to be put.
func (p *parser) missing(k syntax.Kind, where, help string) {
	span := source.Span{File: p.file, Start: p.end(), End: p.end()}
	if p.onNewLine() || p.kind == syntax.EOF {
		p.fault(span, syntax.CodeUnexpected, "expected `"+k.String()+"` "+where, help)
		return
	}
	p.unexpected("`"+k.String()+"` "+where, help)
}

// atEnd reports whether the list or block that is being read can only be over.
func (p *parser) atEnd() bool {
	return p.kind == syntax.RBrace || p.kind == syntax.EOF ||
		p.kind == syntax.TemplateMiddle || p.kind == syntax.TemplateTail
}

// is reports whether the current token is this word, which is not one of the language.
func (p *parser) is(word string) bool { return p.kind == syntax.Name && p.text() == word }

// name takes a name. What says whose it is, such as "of the function".
func (p *parser) name(what string) *syntax.Ident {
	start := p.start()
	if p.kind.IsName() {
		name := p.text()
		p.next()
		return &syntax.Ident{Span: p.finish(start), Name: name}
	}
	if p.kind.IsWord() {
		p.fault(p.here(), syntax.CodeUnexpected, "expected the name "+what+", found `"+p.text()+
			"`, which is a word of the language", "choose another name")
		p.next()
	} else {
		p.unexpected("the name "+what, "")
	}
	return &syntax.Ident{Span: p.finish(start)}
}

// word takes a name where a word of the language is as good as any other:
// that of a field, behind a dot, before a colon.
func (p *parser) word(what string) *syntax.Ident {
	if !p.kind.IsWord() {
		return p.name(what)
	}
	start, name := p.start(), p.text()
	p.next()
	return &syntax.Ident{Span: p.finish(start), Name: name}
}

// atField reports whether name: stands here.
func (p *parser) atField() bool { return p.kind.IsWord() && p.ahead(1) == syntax.Colon }

// skip goes to the next token for which stop is true and that stands in no
// bracket, brace or string that begins on the way; at most to the end of what is
// being read.
func (p *parser) skip(stop func() bool) {
	depth := 0
	for p.kind != syntax.EOF {
		if depth == 0 && (p.atEnd() || stop()) {
			return
		}
		switch p.kind {
		case syntax.LBrace, syntax.LParen, syntax.LBracket, syntax.TemplateHead:
			depth++
		case syntax.RBrace, syntax.TemplateTail, syntax.RParen, syntax.RBracket:
			depth = max(depth-1, 0)
		}
		if p.atMargin() && p.atDecl() {
			return
		}
		p.next()
	}
}

// skipTo goes behind the next closing token of a list that could not be read on.
func (p *parser) skipTo(closing syntax.Kind) {
	p.skip(func() bool {
		return p.kind == closing || p.kind == syntax.Semicolon || p.onNewLine() && p.atStmt()
	})
	p.got(closing)
}

// list reads elements that commas separate, up to the closing token. A line
// end is as good as a comma if lines is set.
func (p *parser) list(closing syntax.Kind, lines bool, elem func()) {
	for p.kind != closing && !p.atEnd() {
		before := p.at
		elem()
		if p.kind == closing || p.got(syntax.Comma) || p.at > before && lines && p.onNewLine() {
			continue
		}
		if p.atEnd() {
			break
		}
		if p.at > before && (p.kind.IsWord() || p.kind >= syntax.Int && p.kind <= syntax.TemplateHead) &&
			!(p.onNewLine() && p.atStmt()) {
			p.missing(syntax.Comma, "or `"+closing.String()+"`", "")
			continue
		}
		p.unexpected("`,` or `"+closing.String()+"`", "")
		p.skipTo(closing)
		return
	}
	if !p.got(closing) {
		p.missing(closing, "here", "")
	}
}

// braces reads what stands in braces: part is called until the closing one. A
// declaration at the margin shows that it is missing, unless parts can begin
// with the same word.
func (p *parser) braces(own syntax.Kind, part func()) {
	opening := p.at
	if !p.expect(syntax.LBrace, "here") {
		return
	}
	for !p.atEnd() && !(p.kind != own && p.atMargin() && p.atDecl()) {
		before := p.at
		part()
		if p.at == before {
			p.next()
		}
	}
	p.closing(opening)
}

// closing takes the brace that closes the one with index opening.
func (p *parser) closing(opening int) {
	t := p.tokens[opening]
	brace := source.Span{File: p.file, Start: t.Start, End: t.End}
	if p.kind != syntax.RBrace {
		var related []diag.Related
		if p.misaligned.Valid() {
			related = append(related, diag.Related{Span: p.misaligned, Message: "the closing brace for this one is " +
				"not below the beginning of its line: it may be meant for another"})
		}
		p.fault(brace, syntax.CodeUnexpected, "this { is never closed", "add the } that belongs to it", related...)
		return
	}
	if !p.misaligned.Valid() && p.onNewLine() && p.indent(p.start()) != p.indent(t.Start) {
		p.misaligned = brace
	}
	p.next()
}

// indent is the number of bytes before the first visible one in the line of an offset.
func (p *parser) indent(offset int32) int {
	text := p.file.Text[:offset]
	line := text[strings.LastIndexByte(text, '\n')+1:]
	return len(line) - len(strings.TrimLeft(line, " \t"))
}
