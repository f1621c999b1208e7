package library

import (
	"fmt"
	"io"
)

//go:generate go run ./gendoc ../../docs/sage/library.md

// WritePage writes the reference of the library, docs/sage/library.md.
func WritePage(w io.Writer) error {
	p := page{w: w}
	p.line("# Sage: the library\n")
	p.line("This page is generated from the code. Functions with `fails` can fail, and so can those " +
		"that are given a function")
	p.line("which can fail. A function `f(x, y)` is also called `x.f(y)`.\n")
	for _, s := range sections() {
		p.line("## %s\n", s.title)
		p.functions("", s.functions)
	}
	p.line("## Tests\n")
	p.line("These can be used only in `test \"…\" { }` and in files `*_test.sg`.\n")
	p.functions("", tests())
	p.line("## Constants\n")
	for _, c := range Constants() {
		p.line("- `%s` = %v: %s", c.Name, c.Value, c.Doc)
	}
	p.line("\n## Types\n")
	p.line("```\n%s```\n", typesText())
	p.line("## Tools\n")
	p.line("An agent has those that it names with `use`.\n")
	for _, t := range Tools() {
		p.line("### %s\n", t.Name)
		p.line("%s\n", t.Doc)
		p.functions(t.Name+".", t.Functions)
	}
	return p.err
}

// page writes lines until one cannot be written.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) functions(prefix string, all []Function) {
	for _, f := range all {
		p.line("- `%s%s`: %s", prefix, f.Signature, f.Doc)
	}
	p.line("")
}

func typesText() (text string) {
	for _, t := range Types() {
		text += t.Declaration + "  // " + t.Doc + "\n"
	}
	return text
}
