// Package parser turns Sage source text into tokens and a syntax tree, and reports syntax errors.
package parser

import (
	"strings"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

const (
	// maxDiagnostics bounds the errors reported for one file.
	maxDiagnostics = 100
	// maxNesting bounds the nesting of brackets, blocks and types, and so the stack of the parser.
	maxNesting = 500
	// maxHeight bounds the height of the tree, and so the stack of everything that walks it. A
	// chain such as a + b + … grows the height without nesting.
	maxHeight = 10_000
)

// Parse parses a file. It returns a tree for any text. Where there are errors, the tree has Bad
// nodes, and missing names are "".
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

	// head is set while parsing an expression that a block follows, so that its brace cannot start
	// a record: if x {}.
	head bool

	// The line and the token index of the last error. Another error at the same place is most
	// likely a consequence of it.
	errorLine, errorIndex int

	// misaligned is the first block whose closing brace is indented differently from its start. A
	// missing brace is most likely there.
	misaligned source.Span
}

// height is the height of a complete subtree, and its extent.
type height struct{ start, end, height int32 }

func (p *parser) next() {
	if p.at < len(p.tokens)-1 {
		p.at++
		p.kind = p.tokens[p.at].Kind
	}
}

// ahead returns the kind of the nth token after the current one.
func (p *parser) ahead(n int) syntax.Kind {
	if p.at+n < len(p.tokens) {
		return p.tokens[p.at+n].Kind
	}
	return syntax.EOF
}

func (p *parser) start() int32 { return p.tokens[p.at].Start }

// end returns the end of the previous token.
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

// here returns the span of the current token.
func (p *parser) here() source.Span {
	t := p.tokens[p.at]
	return source.Span{File: p.file, Start: t.Start, End: t.End}
}

// onNewLine reports whether the current token is the first of its line.
func (p *parser) onNewLine() bool {
	return p.at == 0 || strings.IndexByte(p.file.Text[p.end():p.start()], '\n') >= 0
}

// atMargin reports whether the current token starts in the first column.
func (p *parser) atMargin() bool {
	s := p.start()
	return s == 0 || p.file.Text[s-1] == '\n'
}

// finish returns the span of a complete node that starts at start, and records its height.
func (p *parser) finish(start int32) source.Span {
	// A missing part is located where it is expected: after the last token.
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

// enter increases the nesting depth and reports whether that is allowed. Each call needs a leave,
// allowed or not.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxNesting {
		p.tooDeep("this is nested more than 500 levels deep", "make a function or a name of the inner parts")
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// tooDeep reports the error and stops parsing, since any further error would be a consequence.
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

// report adds an error unconditionally. After too many errors parsing stops.
func (p *parser) report(span source.Span, code, message, help string, related ...diag.Related) {
	p.diagnostics = append(p.diagnostics, diag.Diagnostic{Span: span, Code: code, Message: message, Help: help,
		Related: related})
	if len(p.diagnostics) >= maxDiagnostics {
		p.giveUp()
	}
}

// isNewError reports whether an error at the current token is not a consequence of the last error
// or of an invalid character.
func (p *parser) isNewError() bool {
	line := p.file.LineOf(int(p.start()))
	if p.kind == syntax.Invalid || p.at > 0 && p.tokens[p.at-1].Kind == syntax.Invalid || p.at == p.errorIndex ||
		line == p.errorLine {
		return false
	}
	p.errorLine, p.errorIndex = line, p.at
	return true
}

// fault reports an error at a span, unless it is a consequence of another one.
func (p *parser) fault(span source.Span, code, message, help string, related ...diag.Related) {
	if p.isNewError() {
		p.report(span, code, message, help, related...)
	}
}

// unexpected reports that something else was expected at the current token.
func (p *parser) unexpected(expected, help string) {
	found := article(p.kind)
	if p.kind.IsOperator() || p.kind.IsWord() {
		found = "`" + truncate(p.text()) + "`"
	}
	p.fault(p.here(), syntax.CodeUnexpected, "expected "+expected+", found "+found, help)
}

// truncate shortens a word for a message.
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

// got consumes the current token if it is of this kind.
func (p *parser) got(k syntax.Kind) bool {
	if p.kind != k {
		return false
	}
	p.next()
	return true
}

// gotSeparator consumes a comma or a semicolon, if there is one.
func (p *parser) gotSeparator() bool { return p.got(syntax.Comma) || p.got(syntax.Semicolon) }

// expect consumes a token of this kind, or reports that it is missing. where describes the place,
// such as "after the condition".
func (p *parser) expect(k syntax.Kind, where string) bool {
	if p.got(k) {
		return true
	}
	p.missing(k, where, "")
	return false
}

// missing reports a missing token after the previous one, where it has to be inserted.
func (p *parser) missing(k syntax.Kind, where, help string) {
	span := source.Span{File: p.file, Start: p.end(), End: p.end()}
	if p.onNewLine() || p.kind == syntax.EOF {
		p.fault(span, syntax.CodeUnexpected, "expected `"+k.String()+"` "+where, help)
		return
	}
	p.unexpected("`"+k.String()+"` "+where, help)
}

// atEnd reports whether the current token ends every list and block.
func (p *parser) atEnd() bool {
	return p.kind == syntax.RBrace || p.kind == syntax.EOF ||
		p.kind == syntax.TemplateMiddle || p.kind == syntax.TemplateTail
}

// is reports whether the current token is this word, which must not be a keyword.
func (p *parser) is(word string) bool { return p.kind == syntax.Name && p.text() == word }

// name consumes a name. what describes it, such as "of the function".
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

// word consumes a name where keywords are allowed too: for a field, after a dot, before a colon.
func (p *parser) word(what string) *syntax.Ident {
	if !p.kind.IsWord() {
		return p.name(what)
	}
	start, name := p.start(), p.text()
	p.next()
	return &syntax.Ident{Span: p.finish(start), Name: name}
}

// atField reports whether the current tokens are a name and a colon.
func (p *parser) atField() bool { return p.kind.IsWord() && p.ahead(1) == syntax.Colon }

// skip advances to the next token, outside of nested brackets and strings, for which stop is true.
// It stops at the end of the enclosing construct.
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

// skipTo advances past the closing token of a list with an error.
func (p *parser) skipTo(closing syntax.Kind) {
	p.skip(func() bool {
		return p.kind == closing || p.kind == syntax.Semicolon || p.onNewLine() && p.atStmt()
	})
	p.got(closing)
}

// list parses elements separated by commas, up to the closing token. If lines is set, a line end
// also separates.
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

// braces parses the contents of braces, calling part until the closing one. A declaration at the
// margin means that the brace is missing, unless it is of the kind own, with which a part can
// start.
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

// closing consumes the brace that closes the one with index opening.
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

// indent returns the length of the indentation of the line that contains an offset.
func (p *parser) indent(offset int32) int {
	text := p.file.Text[:offset]
	line := text[strings.LastIndexByte(text, '\n')+1:]
	return len(line) - len(strings.TrimLeft(line, " \t"))
}
