package patch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// prose returns lines that are in no text.
func prose(rng *rand.Rand, n int) (lines []string) {
	for range n {
		lines = append(lines, fmt.Sprintf("// Note %d: see page %d of the handbook.", rng.IntN(1e6), rng.IntN(1e6)))
	}
	return lines
}

// distortions change the diff, or the file under it. They return false if a sample does not allow it.
var distortions = []struct {
	name string
	do   func(s *sample) bool
}{
	{"none", func(*sample) bool { return true }},
	{"offset", offset},
	{"wrong line numbers", func(s *sample) bool {
		for i := range s.hunks {
			s.hunks[i].wrongAt = s.rng.IntN(41) - 20
		}
		return true
	}},
	{"wrong counts, in an answer", func(s *sample) bool {
		s.inFence()
		wrongCounts(s)
		return true
	}},
	{"wrong counts, a file", func(s *sample) bool {
		wrongCounts(s)
		return true
	}},
	{"no line numbers", func(s *sample) bool {
		s.numbers = false
		if s.rng.IntN(2) == 0 {
			s.inFence()
		}
		return true
	}},
	{"context without blanks", bareContext},
	{"blanks at line ends", trailingBlanks},
	{"blanks for tabs", blanksForTabs},
	{"another indentation", dedent},
	{"stale context", staleContext},
	{"stale context, offset", func(s *sample) bool { return staleContext(s) && offset(s) }},
	{"inserted in context", func(s *sample) bool {
		h := &s.hunks[s.rng.IntN(len(s.hunks))]
		at := h.oldAt + 1 + s.rng.IntN(2)
		if h.lines[0].kind != ' ' || h.lines[1].kind != ' ' || h.lines[2].kind != ' ' {
			return false
		}
		s.insertBoth(at, prose(s.rng, 1+s.rng.IntN(2)))
		return true
	}},
	{"case of context", func(s *sample) bool {
		s.each(func(l *line) {
			if l.kind == ' ' && s.rng.IntN(2) == 0 {
				l.text = strings.ToUpper(l.text)
			}
		})
		return true
	}},
	{"CRLF in the file", func(s *sample) bool { s.crlfFile = true; return true }},
	{"CRLF in the diff", func(s *sample) bool { s.crlfDiff = true; return true }},
	{"no final newline", func(s *sample) bool { s.noEnd = true; return true }},
	{"a copy, right line", func(s *sample) bool { return copyRegion(s, 0) }},
	{"a copy, wrong line", func(s *sample) bool { return copyRegion(s, 1000) }},
	{"a copy, no line", func(s *sample) bool { s.numbers = false; return copyRegion(s, 0) }},
	{"a copy, stale context", func(s *sample) bool {
		if !copyRegion(s, 0) {
			return false
		}
		at := s.hunks[0].oldAt // the copy is what the diff says, and the line numbers name the other place
		s.target[at] += " stale"
		s.refuse = true
		return s.hunks[0].lines[0].kind == ' '
	}},
	{"a moved function", moveBlock},
	{"little context", func(s *sample) bool {
		s.setDiff(s.rng.IntN(2))
		return len(s.hunks) > 0
	}},
	{"little context, offset", func(s *sample) bool { s.setDiff(1); return offset(s) }},
	{"truncated", func(s *sample) bool {
		h := &s.hunks[len(s.hunks)-1]
		h.missing = 1 + s.rng.IntN(len(h.lines))
		s.refuse = true
		for _, l := range h.lines[len(h.lines)-h.missing:] {
			if strings.TrimSpace(l.text) != "" || l.kind != ' ' {
				return true
			}
		}
		return false // nothing is lost
	}},
	{"already applied", func(s *sample) bool {
		s.target = slices.Clone(s.new)
		for i := range s.hunks { // what it inserts may follow anyway: then it fits as well as before
			h := &s.hunks[i]
			n := len(s.contextLines(h))
			for _, l := range h.lines {
				if l.kind == '-' {
					n++
				}
			}
			if h.newAt+n <= len(s.new) && slices.Equal(s.old[h.oldAt:h.oldAt+n], s.new[h.newAt:h.newAt+n]) {
				return false
			}
		}
		return true
	}},
	{"of everything", func(s *sample) bool {
		s.inFence()
		wrongCounts(s)
		return trailingBlanks(s) && offset(s)
	}},
}

func offset(s *sample) bool {
	s.insertBoth(0, prose(s.rng, 1+s.rng.IntN(40)))
	return s.hunks[0].oldAt > 0
}

func wrongCounts(s *sample) {
	for i := range s.hunks {
		s.hunks[i].oldLen, s.hunks[i].newLen = s.rng.IntN(7)-3, s.rng.IntN(7)-3
	}
}

func bareContext(s *sample) bool {
	s.inFence()
	for i := range s.hunks {
		s.hunks[i].bare = true
	}
	return true
}

// trailingBlanks adds blanks to lines of the file that the diff has without.
func trailingBlanks(s *sample) bool {
	for i := range s.hunks {
		for _, at := range s.contextLines(&s.hunks[i]) {
			now := s.newIndex(at) + len(s.want) - len(s.new)
			s.target[at+len(s.target)-len(s.old)] += "  "
			s.want[now] += "  "
		}
	}
	return true
}

// blanksForTabs replaces tabs in the diff. Some line of the file has to show how it is indented.
func blanksForTabs(s *sample) bool {
	width := strings.Repeat(" ", []int{2, 4, 8}[s.rng.IntN(3)])
	for i := range s.hunks {
		deep := false
		for _, l := range s.hunks[i].lines {
			deep = deep || l.kind != '+' && strings.HasPrefix(l.text, "\t")
		}
		if !deep {
			return false
		}
	}
	s.each(func(l *line) { l.text = strings.ReplaceAll(l.text, "\t", width) })
	return true
}

// dedent removes the indentation that all lines of a hunk have.
func dedent(s *sample) bool {
	for i := range s.hunks {
		common := ""
		for j, l := range s.hunks[i].lines {
			indent := indentOf(l.text)
			switch {
			case l.text == "":
			case j == 0 || strings.HasPrefix(common, indent):
				common = indent
			case !strings.HasPrefix(indent, common):
				return false
			}
		}
		if common == "" || s.hunks[i].lines[0].text == "" {
			return false
		}
		for j := range s.hunks[i].lines {
			l := &s.hunks[i].lines[j]
			l.text = strings.TrimPrefix(l.text, common)
		}
	}
	return true
}

// staleContext changes one or two lines of context in the file.
func staleContext(s *sample) bool {
	h := &s.hunks[s.rng.IntN(len(s.hunks))]
	context := s.contextLines(h)
	if len(context) < 4 {
		return false
	}
	for range 1 + s.rng.IntN(2) {
		at := context[s.rng.IntN(len(context))]
		now := s.newIndex(at)
		s.target[at] = s.target[at] + " // stale"
		s.want[now] = s.target[at]
	}
	return true
}

// copyRegion copies what the first hunk changes to the end of the file.
func copyRegion(s *sample, wrongAt int) bool {
	s.hunks = s.hunks[:1]
	h := &s.hunks[0]
	var region []string
	for _, l := range h.lines {
		if l.kind != '+' {
			region = append(region, l.text)
		}
	}
	s.new = slices.Clone(s.old) // with the first hunk alone
	at := h.oldAt
	for _, l := range h.lines {
		switch l.kind {
		case '+':
			s.new = slices.Insert(s.new, at, l.text)
			at++
		case '-':
			s.new = slices.Delete(s.new, at, at+1)
		default:
			at++
		}
	}
	extra := slices.Concat(prose(s.rng, 3), region, prose(s.rng, 3))
	s.target, s.want = slices.Concat(s.old, extra), slices.Concat(s.new, extra)
	h.wrongAt = wrongAt
	s.refuse = wrongAt != 0 || !s.numbers
	lead := slices.IndexFunc(h.lines, func(l line) bool { return l.kind != ' ' })
	return lead == 3 && len(region) > 4
}

// moveBlock moves the lines around the first hunk, up to lines that begin without indentation, to another place.
func moveBlock(s *sample) bool {
	if len(s.hunks) != 1 {
		return false
	}
	h := &s.hunks[0]
	end := h.oldAt
	for _, l := range h.lines {
		if l.kind != '+' {
			end++
		}
	}
	isTop := func(i int) bool { return s.old[i] == "" && s.old[i+1] != "" && s.old[i+1][0] > ' ' }
	from, to := h.oldAt, end
	for from > 0 && !isTop(from) {
		from--
	}
	for to < len(s.old)-1 && !isTop(to) {
		to++
	}
	if from == 0 || to >= len(s.old)-1 || to-from > 60 {
		return false
	}
	grown := len(s.new) - len(s.old)
	s.target = slices.Concat(s.old[:from], s.old[to:], s.old[from:to])
	s.want = slices.Concat(s.new[:from], s.new[to+grown:], s.new[from:to+grown])
	return true
}
