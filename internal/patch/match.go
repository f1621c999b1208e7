package patch

import (
	"errors"
	"slices"
	"strings"
	"unicode"
)

// mode says how lines are compared. Each tolerates more than the one before.
type mode int

const (
	exact    mode = iota
	lineEnds      // white space at line ends is ignored
	blanks        // any white space is ignored; lines that are added are indented accordingly
	caseless      // case is ignored, too, in lines of context
	modes
	differs = modes
)

func (m mode) String() string {
	return [...]string{"", "white space at line ends ignored", "white space ignored", "case ignored", ""}[m]
}

// form returns a line in the form in which a mode compares it.
func (m mode) form(text string) string {
	switch m {
	case lineEnds:
		return strings.TrimRight(text, " \t\r\f\v")
	case blanks:
		return strings.Join(strings.Fields(text), " ")
	case caseless:
		return strings.ToLower(strings.Join(strings.Fields(text), " "))
	}
	return text
}

// Tiers of lines of context that do not match, in the order in which they are tried.
const (
	maxDropped = 3              // tier 0 to 3: at most so many lines at either side
	someDiffer = maxDropped + 1 // also a few lines between others
	tiers      = someDiffer + 1
)

// fit is a place at which a hunk fits.
type fit struct {
	at      int // the index of the first line; may be less than 0 if lines are dropped
	tier    int
	mode    mode
	missing int    // lines of context that do not match
	modes   []mode // how each line of the hunk matches
}

// level orders fits: a lower one tolerates less.
func (f *fit) level() int { return f.tier*int(modes) + int(f.mode) }

// matcher searches for hunks in a text.
type matcher struct {
	lines []string
	forms [modes]map[string]int32 // the number of each form of a line
	ids   [modes][]int32          // the numbers of the lines
	work  *int                    // comparisons that are left
	how   []mode                  // scratch of fitAt
}

var errWork = errors.New("does not apply: too many places in the file look alike")

func newMatcher(lines []string, work *int) *matcher {
	m := &matcher{lines: lines, work: work}
	for how := range modes {
		m.forms[how] = make(map[string]int32, len(lines))
		m.ids[how] = make([]int32, len(lines))
		for i, text := range lines {
			form := how.form(text)
			id, ok := m.forms[how][form]
			if !ok {
				id = int32(len(m.forms[how]))
				m.forms[how][form] = id
			}
			m.ids[how][i] = id
		}
	}
	return m
}

// pattern is one side of a hunk, ready to be searched for.
type pattern struct {
	lines       []line
	ids         [modes][]int32 // -1: the text has no such line
	significant []bool
	lead, trail int // lines of context before the first change and after the last one
	inserts     bool
	must        int  // a line that has to match; -1: none
	doubt       bool // half of the lines are evidence
}

// pattern prepares the lines of one side of a hunk. kind is that of the lines that have to match.
func (m *matcher) pattern(lines []line, kind byte, lead, trail int) *pattern {
	p := &pattern{lines: lines, lead: lead, trail: trail, inserts: true, must: -1}
	p.significant = make([]bool, len(lines))
	for how := range modes {
		p.ids[how] = make([]int32, len(lines))
		for i, l := range lines {
			id, ok := m.forms[how][how.form(l.text)]
			if !ok {
				id = -1
			}
			p.ids[how][i] = id
		}
	}
	for i, l := range lines {
		p.significant[i] = isSignificant(l.text)
		if l.kind == kind {
			p.inserts = false
			if p.must < 0 || !p.significant[p.must] && p.significant[i] {
				p.must = i
			}
		}
	}
	return p
}

// isSignificant reports whether a line says more than a bracket or "else" does.
func isSignificant(text string) bool {
	n := 0
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if n++; n == 5 {
				return true
			}
		}
	}
	return false
}

// rivals counts the places at which a hunk fits, also less well than at others.
type rivals struct {
	all     int
	fewest  int // the fewest lines of context that do not match at one of them
	closest int // how many have so few
}

func (r *rivals) add(f *fit) {
	if r.all == 0 || f.missing < r.fewest {
		r.fewest, r.closest = f.missing, 0
	}
	if f.missing == r.fewest {
		r.closest++
	}
	r.all++
}

// search returns the places at which a side of a hunk fits best, and counts those at which it fits
// at all. Levels above most are not tried.
func (m *matcher) search(p *pattern, most int) (fits []fit, all rivals, err error) {
	best := most + 1
	for at := -maxDropped; at <= len(m.lines); at++ {
		if f, ok := m.fitAt(p, at); ok && f.level() <= most {
			if f.level() < best {
				best, fits = f.level(), fits[:0]
			}
			if all.add(&f); f.level() == best {
				fits = append(fits, f)
			}
		}
		if *m.work < 0 {
			return nil, all, errWork
		}
	}
	return fits, all, nil
}

// fitAt returns how a side of a hunk fits at a place.
func (m *matcher) fitAt(p *pattern, at int) (fit, bool) {
	*m.work--
	if at+p.lead < 0 || at+len(p.lines)-p.trail > len(m.lines) {
		return fit{}, false
	}
	if p.must >= 0 && m.compareLine(p, p.must, at) > blanks {
		return fit{}, false
	}
	allowed := 2*maxDropped + len(p.lines)/3
	how := m.how[:0]
	missed := 0
	for i, l := range p.lines {
		match := m.compareLine(p, i, at)
		if l.kind != ' ' && match > blanks {
			return fit{}, false
		}
		if match == differs {
			if missed++; missed > allowed {
				*m.work -= i
				return fit{}, false
			}
		}
		how = append(how, match)
	}
	m.how = how
	*m.work -= len(p.lines)
	best, ok := fit{tier: tiers}, false
	for limit := range modes {
		f, fits := p.tierOf(how, limit)
		if fits && f.level() < best.level() {
			best, ok = f, true
		}
	}
	if ok {
		best.at, best.modes = at, slices.Clone(how)
	}
	return best, ok
}

// compareLine returns the strictest mode in which a line of the pattern matches the text.
func (m *matcher) compareLine(p *pattern, i, at int) mode {
	j := at + i
	if j < 0 || j >= len(m.lines) {
		return differs
	}
	for how := range modes {
		if p.ids[how][i] == m.ids[how][j] {
			return how
		}
	}
	return differs
}

// tierOf returns the tier in which lines match, if no line may match in a laxer mode than limit.
func (p *pattern) tierOf(how []mode, limit mode) (fit, bool) {
	f := fit{mode: limit}
	inner, top, bottom := 0, 0, 0
	n := len(how)
	for i, match := range how {
		switch {
		case match <= limit:
		case p.lines[i].kind != ' ':
			return f, false
		case i < min(p.lead, maxDropped):
			top = i + 1
			f.missing++
		case n-1-i < min(p.trail, maxDropped):
			bottom = max(bottom, n-i)
			f.missing++
		default:
			inner++
			f.missing++
		}
	}
	f.tier = max(top, bottom)
	if inner == 0 && (f.tier == 0 || p.isEvidence(how, limit, f.tier, top, bottom, f.missing)) {
		return f, true
	}
	f.tier = someDiffer
	return f, p.isEvidence(how, limit, f.tier, top, bottom, f.missing)
}

// isEvidence reports whether the lines that match are enough to say that the hunk belongs there. The lines
// that are dropped do not count.
func (p *pattern) isEvidence(how []mode, limit mode, tier, top, bottom, missing int) bool {
	if tier < someDiffer {
		missing = 0
	} else {
		top, bottom = 0, 0
	}
	weight, matched, context, first, last := 0, 0, 0, false, false
	for i := top; i < len(how)-bottom; i++ {
		if how[i] > limit {
			continue
		}
		matched++
		if p.lines[i].kind == ' ' {
			context++
			first = first || i < p.lead
			last = last || len(how)-1-i < p.trail
		}
		if p.significant[i] {
			weight++
			if p.lines[i].kind != ' ' {
				weight++
			}
		}
	}
	if p.doubt {
		return 2*matched >= len(how)
	}
	if tier == someDiffer && (weight < 3 || missing > max(1, context/2)) {
		return false
	}
	if tier == someDiffer && p.inserts && (!first && p.lead > 0 || !last && p.trail > 0) {
		return false
	}
	return weight >= 2
}
