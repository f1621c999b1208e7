package printer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A doc is text with possible line breaks. The layout is chosen group by group from the outside: a
// group that fits the width stays on one line.
type doc struct {
	kind   docKind
	forced bool // contains a line end, whatever the width
	own    bool // of a suffix: on its own line
	blank  bool // of a suffix: after an empty line
	text   string
	parts  []*doc
}

type docKind uint8

const (
	textDoc     docKind = iota
	concatDoc           // the parts in order
	groupDoc            // broken at all of its lines or at none
	indentDoc           // indented by one level
	lineDoc             // a space or a line end
	softDoc             // nothing or a line end
	hardDoc             // a line end
	blankDoc            // a line end and an empty line
	freshDoc            // a line end, unless at the start of a line
	breakDoc            // the text if the group is broken
	flatOnlyDoc         // the text unless the group is broken
	suffixDoc           // a comment, deferred to the end of the line
	fillDoc             // parts and lines; a line is broken if the next part does not fit
	flatDoc             // never broken because of its width
	choiceDoc           // the first part if its first line fits, else the second
)

var (
	line  = &doc{kind: lineDoc}
	soft  = &doc{kind: softDoc}
	hard  = &doc{kind: hardDoc, forced: true}
	empty = &doc{kind: blankDoc, forced: true}
	fresh = &doc{kind: freshDoc, forced: true}
	none  = &doc{kind: concatDoc}
)

func isForced(d *doc) bool { return d.forced }

func text(s string) *doc { return &doc{kind: textDoc, text: s} }

func node(kind docKind, parts []*doc) *doc {
	return &doc{kind: kind, parts: parts, forced: slices.ContainsFunc(parts, isForced)}
}

func concat(parts ...*doc) *doc {
	if len(parts) == 1 {
		return parts[0]
	}
	return node(concatDoc, parts)
}

func group(parts ...*doc) *doc  { return node(groupDoc, parts) }
func indent(parts ...*doc) *doc { return node(indentDoc, parts) }
func fill(parts []*doc) *doc    { return node(fillDoc, parts) }
func flat(d *doc) *doc          { return node(flatDoc, []*doc{d}) }

// choice prints a, or b if the first line of a is too long.
func choice(a, b *doc) *doc {
	return &doc{kind: choiceDoc, parts: []*doc{a, b}, forced: a.forced}
}

// ifBroken is text that is only printed if the group is broken.
func ifBroken(s string) *doc { return &doc{kind: breakDoc, text: s} }

const (
	pageWidth = 100
	tabWidth  = 4
)

type layout struct {
	out      strings.Builder
	column   int
	indent   int  // of the line; written with its first text
	atStart  bool // nothing of the line has been written
	blanks   int  // spaces to write before the next text
	suffixes []suffix
	fitting  []command
}

type command struct {
	indent int
	broken bool
	doc    *doc
}

type suffix struct {
	indent int
	doc    *doc
}

// render lays out a doc.
func render(d *doc) string {
	l := layout{atStart: true}
	stack := []command{{0, true, d}}
	for len(stack) > 0 {
		c := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		d := c.doc
		switch d.kind {
		case textDoc:
			l.write(d.text)
		case concatDoc:
			stack = push(stack, c.indent, c.broken, d.parts)
		case indentDoc:
			stack = push(stack, c.indent+tabWidth, c.broken, d.parts)
		case flatDoc:
			stack = append(stack, command{c.indent, d.forced, d.parts[0]})
		case groupDoc:
			broken := d.forced || c.broken && !l.fits(stack, command{c.indent, false, d})
			stack = push(stack, c.indent, broken, d.parts)
		case lineDoc, softDoc:
			if c.broken {
				l.newline(c.indent, 1)
			} else if d.kind == lineDoc {
				l.blanks++
			}
		case hardDoc:
			l.newline(c.indent, 1)
		case blankDoc:
			l.newline(c.indent, 2)
		case freshDoc:
			if !l.atStart {
				l.newline(c.indent, 1)
			}
		case breakDoc, flatOnlyDoc:
			if c.broken == (d.kind == breakDoc) {
				l.write(d.text)
			}
		case suffixDoc:
			l.suffixes = append(l.suffixes, suffix{c.indent, d})
		case fillDoc:
			stack = l.fill(stack, c)
		case choiceDoc:
			chosen := d.parts[0]
			if !l.fits(stack, command{c.indent, false, chosen}) {
				chosen = d.parts[1]
			}
			stack = append(stack, command{c.indent, c.broken, chosen})
		}
	}
	l.flush(0)
	return l.out.String()
}

// push pushes parts onto a stack, the first one on top.
func push(stack []command, indent int, broken bool, parts []*doc) []command {
	for _, d := range slices.Backward(parts) {
		stack = append(stack, command{indent, broken, d})
	}
	return stack
}

// fill pushes the first two parts of a fill onto the stack, and the rest of it below them.
func (l *layout) fill(stack []command, c command) []command {
	parts := c.doc.parts
	if len(parts) == 0 {
		return stack
	}
	if len(parts) == 1 {
		return append(stack, command{c.indent, false, parts[0]})
	}
	pair := concat(parts[0], parts[1], parts[min(2, len(parts)-1)])
	var behind []command
	if len(parts) <= 3 {
		behind = stack
	}
	fits := l.fits(behind, command{c.indent, false, pair})
	rest := &doc{kind: fillDoc, parts: parts[2:]}
	return append(stack, command{c.indent, c.broken, rest}, command{c.indent, !fits, parts[1]},
		command{c.indent, false, parts[0]})
}

// write writes a text. Trailing blanks are only written if more follows on the line, leading ones
// only if something precedes them.
func (l *layout) write(s string) {
	rest := strings.TrimRight(s, " ")
	after := len(s) - len(rest)
	if l.atStart {
		rest = strings.TrimLeft(rest, " ")
	}
	if rest == "" {
		l.blanks += after
		return
	}
	if l.atStart {
		l.column, l.atStart, l.blanks = 0, false, l.indent
	}
	l.out.WriteString(strings.Repeat(" ", l.blanks) + rest)
	l.column += l.blanks
	l.blanks = after
	if n := strings.LastIndexByte(rest, '\n'); n >= 0 {
		l.column = 0
		rest = rest[n+1:]
	}
	l.column += utf8.RuneCountInString(rest)
}

// newline ends the line and adds n-1 empty ones.
func (l *layout) newline(indent, n int) {
	l.flush(indent)
	l.out.WriteString(strings.Repeat("\n", n))
	l.indent, l.atStart, l.blanks = indent, true, 0
}

// flush writes the deferred comments. Of several on one line, all but the first get their own lines
// before the next line, whose indent is given.
func (l *layout) flush(indent int) {
	for i, s := range l.suffixes {
		if l.atStart {
			l.indent = s.indent
		} else if s.doc.own || i > 0 {
			l.out.WriteByte('\n')
			if s.doc.blank {
				l.out.WriteByte('\n')
			}
			l.indent, l.atStart = s.indent, true
			if !s.doc.own {
				l.indent = indent
			}
		}
		l.blanks = 1
		l.write(s.doc.text)
	}
	l.suffixes = l.suffixes[:0]
	l.blanks = 0
}

// fits reports whether a command, and what follows it on the stack up to the next line end, fits on
// the rest of the line.
func (l *layout) fits(stack []command, next command) bool {
	width := pageWidth - l.column - l.blanks
	if l.atStart {
		width = pageWidth - l.indent
	}
	todo := append(l.fitting[:0], next)
	defer func() { l.fitting = todo[:0] }()
	rest := len(stack)
	for width >= 0 {
		if len(todo) == 0 {
			if rest == 0 {
				return true
			}
			rest--
			todo = append(todo, stack[rest])
			continue
		}
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		d := c.doc
		switch d.kind {
		case textDoc:
			s, _, more := strings.Cut(d.text, "\n")
			width -= utf8.RuneCountInString(s)
			if more {
				return width >= 0
			}
		case concatDoc, indentDoc, fillDoc:
			todo = push(todo, c.indent, c.broken, d.parts)
		case flatDoc:
			todo = append(todo, command{c.indent, d.forced, d.parts[0]})
		case groupDoc:
			todo = push(todo, c.indent, c.broken || d.forced, d.parts)
		case choiceDoc:
			todo = append(todo, command{c.indent, c.broken, d.parts[0]})
		case lineDoc, softDoc:
			if c.broken {
				return true
			}
			if d.kind == lineDoc {
				width--
			}
		case hardDoc, blankDoc, freshDoc:
			return true
		case breakDoc, flatOnlyDoc:
			if c.broken == (d.kind == breakDoc) {
				width -= len(d.text)
			}
		}
	}
	return false
}
