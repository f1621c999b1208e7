package patch

import (
	"slices"
)

// spans returns what the hunks replace, in the order of the file.
func (p *placer) spans() []span {
	type owned struct {
		span
		by *target
	}
	var all []owned
	for _, t := range p.targets {
		if t.chosen != nil {
			p.change(t)
		}
		for _, s := range t.spans {
			all = append(all, owned{s, t})
		}
	}
	slices.SortStableFunc(all, func(a, b owned) int { return a.at - b.at })
	var spans []span
	for i, s := range all {
		if i > 0 {
			last := all[i-1]
			if s.at < last.at+last.count || s.at == last.at && s.count == 0 {
				s.by.fail("overlaps hunk %d", last.by.report.Hunk)
			}
		}
		spans = append(spans, s.span)
	}
	return spans
}

// change computes what a hunk replaces at its place.
func (p *placer) change(t *target) {
	indent := func(text string) (string, bool) { return text, true }
	if t.chosen.mode >= blanks {
		indent = p.indenter(t)
	}
	at, reindented := t.chosen.at, false
	open := false
	for _, l := range t.lines {
		if l.kind == ' ' {
			at++
			open = false
			continue
		}
		if !open {
			t.spans = append(t.spans, span{at: at})
			open = true
		}
		s := &t.spans[len(t.spans)-1]
		if l.kind == '-' {
			s.count++
			at++
			continue
		}
		text, ok := indent(l.text)
		if !ok {
			t.fail("does not apply: the indentation of its new lines in the file is not certain")
			return
		}
		reindented = reindented || text != l.text
		s.lines = append(s.lines, text)
	}
	if reindented {
		t.report.Tolerated = append(t.report.Tolerated, "new lines indented like the file")
	}
}
