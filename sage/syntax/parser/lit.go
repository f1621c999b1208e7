package parser

import (
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// numberLit parses a number. start is the offset of its minus, if it has one.
func (p *parser) numberLit(negative bool, start int32) syntax.Expr {
	kind, here, text := p.kind, p.here(), p.text()
	p.next()
	span := p.finish(start)
	if negative {
		text = "-" + text
	}
	if kind == syntax.Float {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.report(here, syntax.CodeNumber, "this number is too large for a Float", "")
		}
		return &syntax.FloatLit{Span: span, Value: value, Text: text}
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.report(here, syntax.CodeNumber, "this number is too large for an Int",
			"the largest is 9223372036854775807, the smallest -9223372036854775808")
	}
	return &syntax.IntLit{Span: span, Value: value}
}

func (p *parser) stringLit() *syntax.StringLit {
	start, text := p.start(), unixLines(p.text())
	p.next()
	return &syntax.StringLit{Span: p.finish(start), Value: textValue(text[1 : len(text)-1]), Text: text}
}

// unixLines normalizes line ends to a line feed.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// template parses a string with interpolations.
func (p *parser) template() syntax.Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &syntax.BadExpr{Span: p.bad()}
	}
	defer p.inside()()
	t := &syntax.TemplateLit{}
	for {
		text, last := p.text(), p.kind == syntax.TemplateTail
		text = unixLines(text[1 : len(text)-1])
		t.Parts = append(t.Parts, syntax.TemplatePart{Span: p.here(), Value: textValue(text), Text: text})
		p.next()
		if last {
			break
		}
		if p.kind == syntax.TemplateMiddle || p.kind == syntax.TemplateTail {
			p.unexpected("an expression", "write \\{ for a brace that is text")
			t.Exprs = append(t.Exprs, &syntax.BadExpr{Span: p.bad()})
			continue
		}
		t.Exprs = append(t.Exprs, p.expr())
		if p.kind != syntax.TemplateMiddle && p.kind != syntax.TemplateTail {
			p.unexpected("`}` after the expression in the string", "write \\{ for a brace that is text")
			p.skipTemplate()
		}
		if p.kind == syntax.EOF {
			t.Parts = append(t.Parts, syntax.TemplatePart{})
			break
		}
	}
	t.Span = p.finish(start)
	return t
}

// skipTemplate skips to the next part of the current string.
func (p *parser) skipTemplate() {
	for depth := 0; p.kind != syntax.EOF; p.next() {
		switch p.kind {
		case syntax.TemplateHead:
			depth++
		case syntax.TemplateMiddle, syntax.TemplateTail:
			if depth == 0 {
				return
			}
			if p.kind == syntax.TemplateTail {
				depth--
			}
		}
	}
}
