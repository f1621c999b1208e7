package patch

import "strings"

// indentPair is the indentation of a line in the patch and in the file.
type indentPair struct{ patch, file string }

// indentOf returns the blanks at the start of a line.
func indentOf(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, " \t"))]
}

// indenter returns a function that indents new lines of a hunk as the file does. It derives that from the
// lines that both have, and returns false if that is not certain.
func (p *placer) indenter(t *target) func(string) (string, bool) {
	var pairs []indentPair
	same, bare, mixed := true, true, false
	for i, l := range t.old.lines {
		if t.chosen.modes[i] == differs || strings.TrimSpace(l.text) == "" {
			continue
		}
		file := p.lines[t.chosen.at+i]
		if l.kind == ' ' && strings.TrimRight(file, " \t") == " "+strings.TrimRight(l.text, " \t") {
			continue // the blank that marks context is missing in the patch
		}
		pair := indentPair{indentOf(l.text), indentOf(file)}
		pairs = append(pairs, pair)
		same = same && pair.patch == pair.file
		bare = bare && pair.patch == ""
		mixed = mixed || isMixed(pair.file)
	}
	if same {
		return func(text string) (string, bool) { return text, true }
	}
	if bare && !isFlat(t.lines) {
		return func(string) (string, bool) { return "", false }
	}
	rules := indentRules(pairs)
	return func(text string) (string, bool) {
		if strings.TrimSpace(text) == "" {
			return text, true
		}
		indent := indentOf(text)
		result, found := "", false
		for _, rule := range rules {
			switch one, ok := rule(indent); {
			case !ok:
			case found && one != result:
				return "", false
			default:
				result, found = one, true
			}
		}
		return result + text[len(indent):], found && (mixed || !isMixed(result))
	}
}

func isMixed(indent string) bool {
	return strings.Contains(indent, " ") && strings.Contains(indent, "\t")
}

// isFlat reports whether the new lines of a hunk without indentation can all have the same: none of them
// begins a block before another line, or ends one after another line.
func isFlat(lines []line) bool {
	for i, l := range lines {
		text := strings.TrimSpace(l.text)
		if l.kind != '+' || text == "" {
			continue
		}
		opens := i+1 < len(lines) && strings.ContainsAny(text[len(text)-1:], "{([:,")
		closes := i > 0 && strings.ContainsAny(text[:1], "})]")
		if indentOf(l.text) != "" || opens || closes {
			return false
		}
	}
	return true
}

// indentRule converts an indentation of the patch to that of the file.
type indentRule func(string) (string, bool)

// indentRules returns the rules that hold for all pairs: blanks for tabs or the other way around, a
// multiple, and then more or less by the same.
func indentRules(pairs []indentPair) (rules []indentRule) {
	type conversion struct {
		convert indentRule
		neutral bool
	}
	all := []conversion{{func(s string) (string, bool) { return s, true }, true}}
	for width := 1; width <= 8; width++ {
		all = append(all,
			conversion{func(s string) (string, bool) {
				return strings.ReplaceAll(s, "\t", strings.Repeat(" ", width)), true
			}, false},
			conversion{func(s string) (string, bool) {
				n := len(s) - len(strings.TrimLeft(s, " "))
				return strings.Repeat("\t", n/width) + s[n-n%width:], true
			}, false})
	}
	for _, ratio := range [][2]int{{1, 2}, {2, 1}, {1, 4}, {4, 1}, {3, 4}, {4, 3}} {
		all = append(all, conversion{func(s string) (string, bool) {
			n := len(s) * ratio[1] / ratio[0]
			return strings.Repeat(" ", n), !strings.Contains(s, "\t") && n*ratio[0] == len(s)*ratio[1]
		}, false})
	}
	for _, c := range all {
		converted, ok := make([]indentPair, len(pairs)), true
		changes := false
		for i, pair := range pairs {
			var fits bool
			converted[i].file = pair.file
			converted[i].patch, fits = c.convert(pair.patch)
			ok = ok && fits
			changes = changes || converted[i].patch != pair.patch
		}
		if !ok || !changes && !c.neutral {
			continue
		}
		if shift, ok := indentShift(converted); ok {
			rules = append(rules, func(s string) (string, bool) {
				s, ok := c.convert(s)
				if !ok {
					return "", false
				}
				return shift(s)
			})
		}
	}
	return rules
}

// indentShift returns the rule that adds or removes the same at the start of each indentation, if there is one.
func indentShift(pairs []indentPair) (indentRule, bool) {
	first := pairs[0]
	more, isMore := strings.CutSuffix(first.file, first.patch)
	less, isLess := strings.CutSuffix(first.patch, first.file)
	for _, pair := range pairs {
		isMore = isMore && pair.file == more+pair.patch
		isLess = isLess && pair.patch == less+pair.file
	}
	switch {
	case isMore:
		return func(s string) (string, bool) { return more + s, true }, true
	case isLess:
		return func(s string) (string, bool) { return strings.CutPrefix(s, less) }, true
	}
	return nil, false
}
