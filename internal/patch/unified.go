package patch

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// header has what precedes the hunks of a file in a unified diff.
type header struct {
	git      string // the name in "diff --git", if both sides have the same
	old, new string // the names after --- and +++
	from, to string // of a rename
	created  bool
	removed  bool
	mode     string
}

// diff reads the diff of one file.
func (p *scanner) diff() error {
	start := p.at
	h, err := p.header()
	if err != nil {
		return err
	}
	f := edit{line: start + 1, action: update, ordered: true}
	switch {
	case h.created || h.old == devNull:
		f.action, f.names = create, h.either(h.new, h.git)
	case h.removed || h.new == devNull:
		f.action, f.names = remove, h.either(h.old, h.git)
	case h.from != "":
		f.names, f.moveTo = []string{h.from}, []string{h.to}
	default:
		f.names = h.either(h.new, h.old, h.git, p.hint)
	}
	if len(f.names) == 0 || h.from != "" && h.to == "" {
		return p.errorf(start, "the diff names no file")
	}
	if h.mode != "" {
		bits, err := strconv.ParseUint(h.mode, 8, 32)
		if err != nil || bits&^0o777 != 0o100000 {
			return p.errorf(start, "mode %s: only regular files can be changed", h.mode)
		}
		f.mode, f.hasMode = fs.FileMode(bits&0o777), true
	}
	for p.at < len(p.lines) && startsHunk(p.peek(0)) {
		h, err := p.unifiedHunk()
		if err != nil {
			return err
		}
		if n := len(f.hunks); n > 0 && h.start <= f.hunks[n-1].start {
			f.ordered = false // or the numbers are missing
		}
		if err := p.addHunk(&f, h); err != nil {
			return err
		}
	}
	switch {
	case len(f.hunks) == 0 && (h.old != "" || h.git == "" && f.moveTo == nil):
		return p.errorf(start, "the diff has no hunks: the patch is truncated")
	case len(f.hunks) == 0 && f.action == update && f.moveTo == nil && !f.hasMode:
		return nil // "diff --git" with nothing that follows
	}
	p.hint = ""
	p.files = append(p.files, f)
	return nil
}

// either returns the paths that names with and without a/ and b/ can mean, with the likely ones first.
func (h *header) either(names ...string) []string {
	var bare, all []string
	for _, name := range names {
		if name == "" || name == devNull {
			continue
		}
		bare = append(bare, bareName(name))
		all = append(all, name)
	}
	var unique []string
	for _, name := range slices.Concat(bare, all) {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return unique
}

// bareName returns a name without a/ or b/ in front.
func bareName(name string) string {
	if len(name) > 2 && (name[:2] == "a/" || name[:2] == "b/") {
		return name[2:]
	}
	return name
}

const devNull = "/dev/null"

// header reads the lines before the hunks of a file.
func (p *scanner) header() (h header, err error) {
	start := p.at
	for ; p.at < len(p.lines); p.at++ {
		text := p.peek(0)
		value := func(prefix string) bool { return strings.HasPrefix(text, prefix) }
		last := text[strings.LastIndexByte(text, ' ')+1:]
		switch {
		case value("diff --git ") && p.at == start:
			h.git = gitName(strings.TrimPrefix(text, "diff --git "))
		case h.old == "" && p.startsNames(p.at):
			old, now := fileName(strings.TrimPrefix(text, "--- ")), fileName(strings.TrimPrefix(p.peek(1), "+++ "))
			if h.git != "" && bareName(old) != bareName(h.git) && bareName(now) != bareName(h.git) {
				return h, nil // the diff of another file
			}
			h.old, h.new = old, now
			p.at++
		case value("rename from "):
			h.from = fileName(strings.TrimPrefix(text, "rename from "))
		case value("rename to "):
			h.to = fileName(strings.TrimPrefix(text, "rename to "))
		case value("new file mode "):
			h.created, h.mode = true, last
		case value("deleted file mode "):
			h.removed = true
		case value("new mode "):
			h.mode = last
		case value("old mode "), value("index "), value("similarity index "), value("dissimilarity index "):
		case value("copy from "), value("copy to "):
			return h, p.errorf(p.at, "copies of files are not supported")
		case value("Binary files "), value("GIT binary patch"):
			return h, p.errorf(p.at, "binary files are not supported")
		default:
			return h, nil
		}
	}
	return h, nil
}

// fileName returns the name in a header, without the time that may follow it.
func fileName(text string) string {
	if strings.HasPrefix(text, `"`) {
		if end := strings.LastIndexByte(text, '"'); end > 0 {
			if name, err := strconv.Unquote(text[:end+1]); err == nil {
				return name
			}
		}
	}
	text, _, _ = strings.Cut(text, "\t")
	return strings.TrimSpace(text)
}

// gitName returns the name in "a/NAME b/NAME", or "" if the two differ.
func gitName(text string) string {
	if half := len(text) / 2; len(text)%2 == 1 && text[half] == ' ' {
		old, name := fileName(text[:half]), fileName(text[half+1:])
		if strings.TrimPrefix(old, "a/") == strings.TrimPrefix(name, "b/") {
			return name
		}
	}
	return ""
}

var numbers = lazyregexp.New(`^@@ *-(\d{1,9})(?:,(\d{1,9}))? +\+(\d{1,9})(?:,(\d{1,9}))?(?: |$|@)`)

// startsHunk reports whether a line is the header of a hunk, perhaps without numbers.
func startsHunk(text string) bool { return text == "@@" || strings.HasPrefix(text, "@@ ") }

// counts are the lines of a hunk on both sides.
type counts struct {
	old, new int
	known    bool
}

// unifiedHunk reads a hunk of a unified diff. The counts in its header help to find its end, and may
// be wrong.
func (p *scanner) unifiedHunk() (hunk, error) {
	h := hunk{line: p.at + 1}
	var want counts
	if m := numbers().FindStringSubmatch(p.peek(0)); m != nil {
		number := func(text string) int {
			if text == "" {
				return 1
			}
			n, _ := strconv.Atoi(text)
			return n
		}
		want = counts{number(m[2]), number(m[4]), true}
		h.start, h.newStart = number(m[1]), number(m[3])
		if want.old == 0 {
			h.start++ // the header names the line before
		}
	}
	p.at++
	got := p.body(&h, want)
	isShort := want.known && (got.old < want.old || got.new < want.new)
	if isShort && p.closesEarly() {
		return h, p.errorf(p.at, "the code block ends before the last line of the hunk: write the diff without one, "+
			"or with a blank in front of each line of context")
	}
	rest := p.at
	for rest < len(p.lines) && strings.TrimSpace(p.lines[rest]) == "" {
		rest++
	}
	if !isShort || rest < len(p.lines) {
		return h, nil
	}
	if h.missing = want.old - got.old; h.missing != want.new-got.new || !h.changes() {
		return h, p.errorf(h.line-1, "the patch ends before the last line of its last hunk: it is truncated, or "+
			"the counts in the header are wrong")
	}
	return h, nil
}

// closesEarly reports whether the next line looks like the end of the code block of the diff, but may be a line of
// context that has lost its blank: lines of a diff follow, and another end.
func (p *scanner) closesEarly() bool {
	if p.fence == "" || !closes(p.peek(0), p.fence) {
		return false
	}
	changes := false
	for i := p.at + 1; i < len(p.lines); i++ {
		switch text := p.lines[i]; {
		case closes(text, p.fence) && changes:
			return true
		case fenceOf(text) != "" && !closes(text, p.fence):
			return false // another code block
		case strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-"):
			changes = true
		}
	}
	return false
}

// body reads the lines of a hunk, and returns how many there are on each side.
func (p *scanner) body(h *hunk, want counts) (got counts) {
	bare := 0 // empty lines at the end, without the blank of a context line
	for ; p.at < len(p.lines); p.at++ {
		text := p.peek(0)
		full := !want.known || got.old >= want.old && got.new >= want.new
		if p.endsHunk(want, got, full) {
			break
		}
		kind := byte(' ')
		switch {
		case text == "":
			bare++
		case text[0] == '\\':
			h.noEnd()
			continue
		case text[0] == ' ' || text[0] == '+' || text[0] == '-':
			kind, text, bare = text[0], text[1:], 0
		default:
			bare = 0
		}
		got.add(kind, 1)
		h.lines = append(h.lines, line{kind, text})
	}
	for ; bare > 0 && (!want.known || got.old > want.old || got.new > want.new); bare-- {
		got.add(' ', -1)
		h.lines = h.lines[:len(h.lines)-1]
	}
	return got
}

func (c *counts) add(kind byte, n int) {
	if kind != '+' {
		c.old += n
	}
	if kind != '-' {
		c.new += n
	}
}

// noEnd notes that the last line has no newline.
func (h *hunk) noEnd() {
	if len(h.lines) == 0 {
		return
	}
	kind := h.lines[len(h.lines)-1].kind
	h.oldNoEnd = h.oldNoEnd || kind != '+'
	h.newNoEnd = h.newNoEnd || kind != '-'
}

// endsHunk reports whether the next line is not part of the hunk. full says that the hunk has all lines
// that its header counts, if it does.
func (p *scanner) endsHunk(want, got counts, full bool) bool {
	text := p.peek(0)
	marked := text != "" && strings.ContainsRune(" +-\\", rune(text[0]))
	switch {
	case startsHunk(text), strings.HasPrefix(text, "diff --git "), strings.HasPrefix(text, "*** "), isMarker(text, '<'):
		return true
	case p.fence != "" && closes(text, p.fence), p.fence == "" && fenceOf(text) != "":
		return true
	case p.startsNames(p.at) && startsHunk(p.peek(2)): // or a line "-- a" that is removed, and "++ b" added
		return full || got.old+1 != want.old || got.new+1 != want.new
	case text == "-- " || text == "--": // the signature of git format-patch
		return full && want.known || p.at+2 >= len(p.lines)
	case !full || marked || p.fence != "" && text != "":
		return false
	case text != "":
		return want.known // otherwise a line of context without its blank
	}
	next := ""
	for i := 1; next == "" && p.at+i < len(p.lines); i++ {
		next = p.peek(i)
	}
	return next == "" && want.known || next != "" && !strings.ContainsRune(" +-\\@\t", rune(next[0])) && p.fence == ""
}
