package syntax

import (
	"strconv"
	"strings"
)

// numberLit reads a number, of which start is the beginning with its minus.
func (p *parser) numberLit(negative bool, start int32) Expr {
	kind, here, text := p.kind, p.here(), p.text()
	p.next()
	span := p.finish(start)
	if negative {
		text = "-" + text
	}
	if kind == Float {
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.report(here, CodeNumber, "this number is too large for a Float", "")
		}
		return &FloatLit{span, value, text}
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.report(here, CodeNumber, "this number is too large for an Int",
			"the largest is 9223372036854775807, the smallest -9223372036854775808")
	}
	return &IntLit{span, value}
}

func (p *parser) stringLit() *StringLit {
	start, text := p.start(), unixLines(p.text())
	p.next()
	return &StringLit{p.finish(start), textValue(text[1 : len(text)-1]), text}
}

// unixLines is a text in which lines end with a line feed only.
func unixLines(text string) string {
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// template reads a string with interpolations.
func (p *parser) template() Expr {
	start := p.start()
	defer p.leave()
	if !p.enter() {
		return &BadExpr{p.bad()}
	}
	defer p.inside()()
	t := &TemplateLit{}
	for {
		text, last := p.text(), p.kind == TemplateTail
		text = unixLines(text[1 : len(text)-1])
		part := TemplatePart{p.here(), textValue(text), text}
		t.Parts = append(t.Parts, part)
		p.next()
		if last {
			break
		}
		if p.kind == TemplateMiddle || p.kind == TemplateTail {
			p.unexpected("an expression", "write \\{ for a brace that is text")
			t.Exprs = append(t.Exprs, &BadExpr{p.bad()})
			continue
		}
		t.Exprs = append(t.Exprs, p.expr())
		if p.kind != TemplateMiddle && p.kind != TemplateTail {
			p.unexpected("`}` after the expression in the string", "write \\{ for a brace that is text")
			p.skipTemplate()
		}
		if p.kind == EOF {
			t.Parts = append(t.Parts, TemplatePart{})
			break
		}
	}
	t.Span = p.finish(start)
	return t
}

// skipTemplate goes to the next part of the string that is being read.
func (p *parser) skipTemplate() {
	for depth := 0; p.kind != EOF; p.next() {
		switch p.kind {
		case TemplateHead:
			depth++
		case TemplateMiddle:
			if depth == 0 {
				return
			}
		case TemplateTail:
			if depth == 0 {
				return
			}
			depth--
		}
	}
}
