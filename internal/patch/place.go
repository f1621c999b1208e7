package patch

import (
	"fmt"
	"slices"
	"strings"
)

// target is a hunk on its way to its place in a file.
type target struct {
	*hunk
	old    *pattern
	fits   []fit // the places at which it fits equally well
	rivals rivals
	chosen *fit
	spans  []span
	report *HunkReport
}

// fail notes why a hunk does not apply.
func (t *target) fail(format string, args ...any) { t.report.Error = fmt.Sprintf(format, args...) }

// isOpen reports whether a hunk still needs a place.
func (t *target) isOpen() bool { return t.report.Error == "" && !t.report.Done }

// placer finds the places of the hunks of one file.
type placer struct {
	*matcher
	isGo    bool
	text    *lineText
	targets []*target
	ordered bool
}

// applyHunks applies hunks to a text, and writes what they have done into reports. If one fails, the
// result has no meaning.
func applyHunks(text string, f *edit, isGo bool, reports []HunkReport, work *int) string {
	t := split(text)
	p := &placer{matcher: newMatcher(t.lines, work), isGo: isGo, text: t, ordered: f.ordered}
	for i := range f.hunks {
		p.targets = append(p.targets, &target{hunk: &f.hunks[i], report: &reports[i]})
	}
	for _, t := range p.targets {
		if t.placement == "" {
			p.find(t)
		} else if err := p.insert(t); err != nil {
			t.fail("%s", err)
		}
	}
	p.ordered = p.ordered && p.inOrder()
	delta := 0
	for i, t := range p.targets {
		if t.placement == "" && t.isOpen() {
			delta = p.choose(i, delta)
		}
	}
	spans := p.spans()
	for _, t := range p.targets {
		if t.report.Error != "" {
			return text
		}
	}
	out := t.replace(spans)
	for _, t := range p.targets {
		if t.chosen != nil && t.oldNoEnd != t.newNoEnd && t.chosen.at+len(t.old.lines) == len(p.lines) {
			out.noEnd = t.newNoEnd && len(out.lines) > 0
		}
	}
	return out.text()
}

// find searches for the places of a hunk.
func (p *placer) find(t *target) {
	lead, trail := len(t.lines), 0
	for i, l := range t.lines {
		if l.kind != ' ' {
			lead, trail = min(lead, i), len(t.lines)-1-i
		}
	}
	t.old = p.pattern(t.side('+'), '-', lead, trail)
	if len(t.old.lines) == 0 {
		if len(p.lines) > 0 {
			t.fail("has no lines of context")
			return
		}
		t.fits = []fit{{}}
		return
	}
	var err error
	if t.fits, t.rivals, err = p.search(t.old, tiers*int(modes)); err != nil {
		t.fail("%s", err)
		return
	}
	now := p.pattern(t.side('-'), '+', lead, trail)
	if len(t.fits) > 0 && t.fits[0].level() == 0 {
		p.findCopy(t, now)
		return
	}
	p.findDone(t, now)
	if len(t.fits) == 0 && t.isOpen() {
		t.fail("does not apply: its lines are not in the file")
	}
}

// inOrder reports whether the hunks with only one place are in the order of the file.
func (p *placer) inOrder() bool {
	last := -1 << 30
	for _, t := range p.targets {
		if t.isOpen() && len(t.fits) == 1 {
			if t.fits[0].at < last {
				return false
			}
			last = t.fits[0].at
		}
	}
	return true
}

// choose decides where a hunk is applied, and returns by how many lines it has moved. delta is the same for
// the hunk before.
func (p *placer) choose(i, delta int) int {
	t := p.targets[i]
	expected := t.start - 1 + delta
	fits := p.narrow(i, expected)
	if len(fits) != 1 {
		if len(fits) == 0 {
			fits = t.fits
		}
		t.fail("is ambiguous: it fits at %s", placesOf(fits))
		return delta
	}
	f := &fits[0]
	if where, ok := p.region(t.anchors); ok && !where.holds(f, len(t.old.lines)) {
		t.fail("fits at line %d only, which is outside of %q", f.at+1, strings.Join(t.anchors, " "))
		return delta
	} else if !ok && len(t.anchors) > 0 {
		t.report.Tolerated = append(t.report.Tolerated, fmt.Sprintf("%q not found", strings.Join(t.anchors, " ")))
	}
	closest := f.missing == t.rivals.fewest && t.rivals.closest == 1
	if f.tier > 0 && t.rivals.all > 1 && !(closest && t.start > 0 && f.at == expected) {
		t.fail("is ambiguous: not all of its lines are in the file, and it fits at line %d and elsewhere", f.at+1)
		return delta
	}
	if t.start > 0 && f.at != expected && f.at != t.start-1 {
		doubt := *t.old
		doubt.doubt = true
		if other, ok := p.fitAt(&doubt, expected); ok {
			t.fail("is ambiguous: it fits at line %d, and less well at line %d, which its header names", f.at+1,
				other.at+1)
			return delta
		}
	}
	if end := f.at + len(t.old.lines); t.missing > 0 && !p.blankAt(end, t.missing) {
		t.fail("has %s less than its header counts: the patch is truncated, or the header is wrong",
			lineCount(t.missing))
		return delta
	}
	if p.repeats(t, f) {
		t.report.Done, t.report.At = true, f.at+1
		return delta
	}
	t.chosen = f
	t.report.At = f.at + 1
	if t.start > 0 {
		t.report.Offset = f.at - (t.start - 1)
		delta = t.report.Offset
	}
	p.note(t, f)
	return delta
}

// note reports what was tolerated.
func (p *placer) note(t *target, f *fit) {
	if text := f.mode.String(); text != "" {
		t.report.Tolerated = append(t.report.Tolerated, text)
	}
	switch {
	case f.tier == someDiffer:
		t.report.Tolerated = append(t.report.Tolerated, lineCount(f.missing)+" of context differ")
	case f.tier > 0:
		t.report.Tolerated = append(t.report.Tolerated, lineCount(f.missing)+" of context ignored")
	}
}

// placesOf lists lines, for an error.
func placesOf(fits []fit) string {
	var all []string
	for i, f := range fits {
		if i == 4 {
			return "lines " + strings.Join(all, ", ") + " and elsewhere"
		}
		all = append(all, fmt.Sprint(f.at+1))
	}
	last := len(all) - 1
	return "lines " + strings.Join(all[:last], ", ") + " and " + all[last]
}

// narrow returns the one place for a hunk if something decides between those at which it fits: an
// anchor, the end of the file, the line number of an exact fit, or its neighbours.
func (p *placer) narrow(i, expected int) []fit {
	t := p.targets[i]
	fits := t.fits
	if len(fits) == 1 {
		return fits
	}
	filter := func(keep func(fit) bool) {
		var some []fit
		for _, f := range fits {
			if keep(f) {
				some = append(some, f)
			}
		}
		if len(some) > 0 {
			fits = some
		}
	}
	if where, ok := p.region(t.anchors); ok {
		filter(func(f fit) bool { return f.at >= where.from && f.at < where.to })
	}
	if t.atEnd {
		filter(func(f fit) bool { return f.at+len(t.old.lines) == len(p.lines) })
	}
	if len(fits) > 1 && t.start > 0 && fits[0].level() == 0 {
		filter(func(f fit) bool { return f.at == expected && p.isWhole(t.old, f.at) })
	}
	if len(fits) > 1 && p.ordered {
		from, to := 0, len(p.lines)
		for j, other := range p.targets {
			switch {
			case other.old == nil:
			case j < i && other.chosen != nil:
				from = max(from, other.chosen.at+len(other.old.lines)-other.old.trail)
			case j > i && other.isOpen() && len(other.fits) == 1:
				to = min(to, other.fits[0].at+other.old.lead)
			}
		}
		filter(func(f fit) bool { return f.at+t.old.lead >= from && f.at+len(t.old.lines)-t.old.trail <= to })
	}
	return fits
}

// isWhole reports whether an exact fit is more than chance: a line of the hunk says something, or it has all the
// context that diff writes.
func (p *placer) isWhole(old *pattern, at int) bool {
	return slices.Contains(old.significant, true) ||
		(old.lead >= maxDropped || at == 0) && (old.trail >= maxDropped || at+len(old.lines) == len(p.lines))
}

// blankAt reports whether there are so many blank lines at a place.
func (p *placer) blankAt(at, n int) bool {
	for i := at; i < at+n; i++ {
		if i >= len(p.lines) || strings.TrimSpace(p.lines[i]) != "" {
			return false
		}
	}
	return true
}
