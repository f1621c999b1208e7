package patch

import "slices"

// findCopy recognises a hunk that is already applied, and whose old lines are still somewhere else.
func (p *placer) findCopy(t *target, now *pattern) {
	if t.newStart == 0 || slices.ContainsFunc(t.fits, func(f fit) bool {
		return f.at == t.start-1 || f.at == t.newStart-1
	}) {
		return
	}
	if f, ok := p.fitAt(now, t.newStart-1); ok && f.level() == 0 && now.isProof() {
		t.report.Done, t.report.At = true, t.newStart
	}
}

// findDone recognises a hunk that is already applied.
func (p *placer) findDone(t *target, now *pattern) {
	most := int(blanks)
	elsewhere := true // whether it may be applied where the old lines do not fit
	if len(t.fits) > 0 && t.fits[0].tier == 0 {
		most, elsewhere = int(t.fits[0].mode)-1, false
	}
	done, _, err := p.search(now, most)
	if err != nil {
		t.fail("%s", err)
		return
	}
	for _, d := range done {
		if !now.isProof() && (now.inserts || t.start == 0 || d.at != t.start-1) {
			continue // inserts: it only removes lines
		}
		overlaps := func(f fit) bool {
			return f.at < d.at+len(now.lines) && d.at < f.at+len(t.old.lines)
		}
		switch {
		case elsewhere && now.inserts && slices.ContainsFunc(t.fits, func(f fit) bool { return f.at == d.at }):
			t.fail("is ambiguous: at line %d, its lines are removed already, or the context has changed", d.at+1)
			return
		case slices.ContainsFunc(t.fits, func(f fit) bool { return f.at == d.at || elsewhere && overlaps(f) }),
			len(t.fits) == 0:
			t.report.Done, t.report.At = true, d.at+1
			return
		case elsewhere:
			t.fail("is ambiguous: it seems to be applied at line %d, and also fits at line %d", d.at+1, t.fits[0].at+1)
			return
		}
	}
}

// isProof reports whether the new lines of a hunk show that it is applied, if they are all found.
func (p *pattern) isProof() bool {
	n := 0
	for _, is := range p.significant {
		if is {
			n++
		}
	}
	return n >= 2 && (!p.inserts || p.lead > 0 && p.trail > 0) // inserts: nothing is added, the hunk removes lines
}

// repeats reports whether lines that a hunk inserts are already there. With context at both sides, an exact fit
// excludes that, unless it should be at the end of the file.
func (p *placer) repeats(t *target, f *fit) bool {
	if !t.old.inserts {
		return false
	}
	lead, trail, length := t.old.lead, t.old.trail, len(t.old.lines)
	var added []string
	significant := false
	for _, l := range t.lines {
		if l.kind == '+' {
			added = append(added, l.text)
			significant = significant || isSignificant(l.text)
		}
	}
	isAt := func(at int) bool {
		if at < 0 || at+len(added) > len(p.lines) || !slices.Equal(p.lines[at:at+len(added)], added) {
			return false
		}
		for i := max(at, f.at); i < min(at+len(added), f.at+length); i++ {
			if f.modes[i-f.at] != differs {
				return false // the hunk has it as context
			}
		}
		return true
	}
	if end := f.at + length; lead > trail && end+len(added) == len(p.lines) {
		now := p.pattern(t.side('-'), '+', lead, trail)
		if at, ok := p.fitAt(now, f.at); ok && at.tier == 0 {
			return true
		}
	}
	return significant && (lead == 0 || trail == 0 || f.tier > 0) &&
		(isAt(f.at+length-trail) || isAt(f.at+lead-len(added)))
}
