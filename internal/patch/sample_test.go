package patch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// sample is a text before and after an edit, and a diff of both in the middle of being distorted.
type sample struct {
	rng      *rand.Rand
	old, new []string // the texts that the diff was made of
	hunks    []sampleHunk

	target, want []string // the file that the diff is applied to, and what it should become
	refuse       bool     // no result is right: it cannot be decided
	crlfFile     bool
	crlfDiff     bool
	noEnd        bool // the file has no final newline
	before       string
	after        string
	numbers      bool // the headers have numbers
}

// sampleHunk is a hunk of a sample. The numbers in its header are its own until they are distorted.
type sampleHunk struct {
	lines            []line
	oldAt, newAt     int // from 0
	oldLen, newLen   int // distortions of the counts
	wrongAt, missing int
	bare             bool // context without its blank
}

// newSample edits a text at one or two places.
func newSample(rng *rand.Rand, text string) *sample {
	s := &sample{rng: rng, numbers: true}
	s.old = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for {
		s.new = slices.Clone(s.old)
		for range 1 + rng.IntN(2) {
			s.edit()
		}
		if s.setDiff(3); len(s.hunks) > 0 {
			break
		}
	}
	s.target, s.want = slices.Clone(s.old), slices.Clone(s.new)
	return s
}

// edit changes a few lines of the new text.
func (s *sample) edit() {
	at := s.rng.IntN(len(s.new))
	n := min(1+s.rng.IntN(3), len(s.new)-at)
	switch s.rng.IntN(3) {
	case 0: // change words
		for i := at; i < at+n; i++ {
			s.new[i] = otherWord(s.rng, s.new[i])
		}
	case 1:
		s.new = slices.Delete(s.new, at, at+n)
	case 2: // lines like those here
		var added []string
		for i := at; i < at+n; i++ {
			added = append(added, otherWord(s.rng, s.new[i]))
		}
		s.new = slices.Insert(s.new, at, added...)
	}
}

// otherWord changes a word of a line.
func otherWord(rng *rand.Rand, text string) string {
	words := strings.Split(text, " ")
	for range 10 {
		i := rng.IntN(len(words))
		if isSignificant(words[i]) {
			words[i] += fmt.Sprintf("X%d", rng.IntN(100))
			return strings.Join(words, " ")
		}
	}
	return text
}

// setDiff makes the diff of the two texts, with so many lines of context.
func (s *sample) setDiff(context int) {
	s.hunks = nil
	lines := compare(s.old, s.new)
	for i := 0; i < len(lines); i++ {
		if lines[i].kind == ' ' {
			continue
		}
		from, to, same := max(0, i-context), i, 0
		for to < len(lines) && same <= 2*context {
			if same++; lines[to].kind != ' ' {
				same = 0
			}
			to++
		}
		if same > context {
			to -= same - context
		}
		var c counts
		for _, l := range lines[:from] {
			c.add(l.kind, 1)
		}
		s.hunks = append(s.hunks, sampleHunk{lines: slices.Clone(lines[from:to]), oldAt: c.old, newAt: c.new})
		i = to - 1
	}
}

// each calls do with each line of the diff.
func (s *sample) each(do func(*line)) {
	for i := range s.hunks {
		for j := range s.hunks[i].lines {
			do(&s.hunks[i].lines[j])
		}
	}
}

// insertBoth inserts lines before a line that both texts have, by its index in the old text.
func (s *sample) insertBoth(at int, lines []string) {
	now := s.newIndex(at)
	s.target = slices.Insert(s.target, at, lines...)
	s.want = slices.Insert(s.want, now, lines...)
}

// newIndex returns the index of a line in the new text. The line is not next to a change.
func (s *sample) newIndex(at int) int {
	old, now := 0, 0
	for _, l := range compare(s.old, s.new) {
		if l.kind == ' ' && old == at {
			return now
		}
		if l.kind != '+' {
			old++
		}
		if l.kind != '-' {
			now++
		}
	}
	return now
}

// contextLines returns the indices in the old text of the lines of context of a hunk.
func (s *sample) contextLines(h *sampleHunk) (all []int) {
	at := h.oldAt
	for _, l := range h.lines {
		if l.kind == ' ' {
			all = append(all, at)
		}
		if l.kind != '+' {
			at++
		}
	}
	return all
}

// text returns the diff as it is given to the programs.
func (s *sample) text() string {
	var b strings.Builder
	b.WriteString(s.before + "--- a/file\n+++ b/file\n")
	for _, h := range s.hunks {
		var c counts
		for _, l := range h.lines {
			c.add(l.kind, 1)
		}
		old, now := h.oldAt+1, h.newAt+1
		if c.old == 0 {
			old--
		}
		if c.new == 0 {
			now--
		}
		if s.numbers {
			fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", max(0, old+h.wrongAt), max(0, c.old+h.oldLen),
				max(0, now+h.wrongAt), max(0, c.new+h.newLen))
		} else {
			b.WriteString("@@ ... @@\n")
		}
		for _, l := range h.lines[:len(h.lines)-h.missing] {
			if h.bare && l.kind == ' ' && l.text != "" && !strings.ContainsAny(l.text[:1], `+-\@`) {
				b.WriteString(l.text + "\n")
			} else {
				b.WriteString(string(l.kind) + l.text + "\n")
			}
		}
	}
	b.WriteString(s.after)
	if s.crlfDiff {
		return strings.ReplaceAll(b.String(), "\n", "\r\n")
	}
	return b.String()
}

// file returns the text of lines as the file has them.
func (s *sample) file(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	text := strings.Join(lines, "\n")
	if !s.noEnd {
		text += "\n"
	}
	if s.crlfFile {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// inFence puts an answer of a model around the diff.
func (s *sample) inFence() {
	s.before = "Here is the change:\n\n```diff\n"
	s.after = "```\n\nThis makes it work.\n"
}
