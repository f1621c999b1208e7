package patch

import "strings"

// lineText is a text as lines and their ends.
type lineText struct {
	lines []string
	crlf  []bool // whether a line ends with \r\n
	noEnd bool   // the last line has no newline
}

// split splits a text into lines.
func split(text string) *lineText {
	t := &lineText{}
	if text == "" {
		return t
	}
	t.noEnd = !strings.HasSuffix(text, "\n")
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		bare := strings.TrimSuffix(l, "\r")
		t.lines = append(t.lines, bare)
		t.crlf = append(t.crlf, len(bare) < len(l))
	}
	if n := len(t.lines) - 1; t.noEnd && t.crlf[n] { // a single \r at the end is part of the line
		t.lines[n] += "\r"
	}
	if n := len(t.lines) - 1; t.noEnd && n > 0 {
		t.crlf[n] = (&lineText{crlf: t.crlf[:n]}).mostlyCRLF() // in case another line follows it
	}
	return t
}

// text returns the text of the lines.
func (t *lineText) text() string {
	var b strings.Builder
	for i, l := range t.lines {
		b.WriteString(l)
		switch {
		case t.noEnd && i == len(t.lines)-1:
		case t.crlf[i]:
			b.WriteString("\r\n")
		default:
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// mostlyCRLF reports whether more than half of the lines end with \r\n.
func (t *lineText) mostlyCRLF() bool {
	n := 0
	for _, is := range t.crlf {
		if is {
			n++
		}
	}
	return 2*n > len(t.crlf)
}

// span replaces count lines from an index on by others.
type span struct {
	at, count int
	lines     []string
}

// replace returns the text with spans replaced, which are in order and do not overlap. New lines end as those
// that they replace or follow.
func (t *lineText) replace(spans []span) *lineText {
	out := &lineText{noEnd: t.noEnd}
	usual := t.mostlyCRLF()
	from := 0
	for _, s := range append(spans, span{at: len(t.lines)}) {
		out.lines = append(out.lines, t.lines[from:s.at]...)
		out.crlf = append(out.crlf, t.crlf[from:s.at]...)
		for i, l := range s.lines {
			crlf := usual
			if i < s.count {
				crlf = t.crlf[s.at+i]
			}
			out.lines = append(out.lines, l)
			out.crlf = append(out.crlf, crlf)
		}
		from = s.at + s.count
	}
	if len(out.lines) == 0 {
		out.noEnd = false
	}
	return out
}
