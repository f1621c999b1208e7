package patch

import (
	"fmt"
	"path"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// scanner reads the edits of a patch, and skips what is around them.
type scanner struct {
	lines []string
	at    int    // the index of the next line
	hint  string // the path that the line above names
	last  string // the path of the last search and replace block
	fence string // the open code fence around edits
	files []edit
	hunks int
}

// Parse reads the edits in a text, which may be the answer of a model: prose around edits is ignored.
// An error is a *SyntaxError.
func Parse(text string) (*Patch, error) {
	if len(text) > MaxBytes {
		return nil, &SyntaxError{1, fmt.Sprintf("the patch has more than %d bytes", MaxBytes)}
	}
	p := &scanner{lines: splitLines(text)}
	if len(p.lines) > maxLines {
		return nil, &SyntaxError{1, fmt.Sprintf("the patch has more than %d lines", maxLines)}
	}
	opened := 0
	for p.at < len(p.lines) {
		if err := p.next(); err != nil {
			return nil, err
		}
		if p.fence == "" {
			opened = p.at
		}
		if len(p.files) > maxFiles {
			return nil, p.errorf(p.at-1, "the patch edits more than %d files", maxFiles)
		}
	}
	switch {
	case p.fence != "":
		return nil, p.errorf(opened, "the code block is not closed: the patch is truncated")
	case len(p.files) == 0:
		return nil, p.errorf(0, "no edits found: expected a diff, a search and replace block, "+
			"or files as code blocks below their paths")
	}
	return &Patch{p.files}, nil
}

// splitLines splits a patch into lines without their ends.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}

// errorf returns an error about the line with an index.
func (p *scanner) errorf(at int, format string, args ...any) error {
	return &SyntaxError{at + 1, fmt.Sprintf(format, args...)}
}

// peek returns the line at an offset from the next one; "" after the last one.
func (p *scanner) peek(offset int) string {
	if i := p.at + offset; i < len(p.lines) {
		return p.lines[i]
	}
	return ""
}

// next reads the next edit, or skips a line.
func (p *scanner) next() error {
	text := p.peek(0)
	switch {
	case p.startsDiff(p.at):
		return p.diff()
	case startsEnvelope(text):
		return p.envelope()
	case isMarker(text, '<'):
		return p.block()
	case p.fence != "" && closes(text, p.fence):
		p.fence, p.hint = "", ""
		p.at++
		return nil
	case p.fence == "" && fenceOf(text) != "":
		return p.openFence()
	}
	if name := pathLine(text); name != "" || strings.TrimSpace(text) != "" {
		p.hint = name
	}
	p.at++
	return nil
}

// startsDiff reports whether the line with an index begins a unified diff.
func (p *scanner) startsDiff(at int) bool {
	text := p.lines[at]
	return strings.HasPrefix(text, "diff --git ") || p.startsNames(at) || startsHunk(text)
}

// startsNames reports whether two lines are the names of a unified diff.
func (p *scanner) startsNames(at int) bool {
	return at+1 < len(p.lines) && strings.HasPrefix(p.lines[at], "--- ") && strings.HasPrefix(p.lines[at+1], "+++ ")
}

// fenceOf returns the characters that open a code block, or "".
func fenceOf(text string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(text) - len(strings.TrimLeft(text, c)); n >= 3 {
			return text[:n]
		}
	}
	return ""
}

// closes reports whether a line closes a code block.
func closes(text, fence string) bool {
	text = strings.TrimRight(text, " \t")
	return strings.HasPrefix(text, fence) && strings.Trim(text, fence[:1]) == ""
}

// openFence reads a code block: edits, a whole file if its path is known, or an example to skip.
func (p *scanner) openFence() error {
	start := p.at
	fence := fenceOf(p.peek(0))
	name := infoPath(strings.TrimSpace(strings.TrimPrefix(p.peek(0), fence)))
	if name == "" {
		name = p.hint
	}
	end, first, edits, blocks := p.fenceEnd(start+1, fence), "", false, false
	for i := start + 1; i < end; i++ {
		starts := p.startsDiff(i) || startsEnvelope(p.lines[i])
		blocks = blocks || isMarker(p.lines[i], '<')
		edits = edits || starts && (name == "" || first == "")
		if first == "" {
			first = strings.TrimSpace(p.lines[i])
		}
	}
	p.hint = name
	switch {
	case edits || blocks:
		p.fence, p.at = fence, start+1
	case name == "":
		p.at = min(end+1, len(p.lines))
	case end == len(p.lines):
		return p.errorf(start, "the code block of %s is not closed: the patch is truncated", name)
	default:
		content := strings.Join(p.lines[start+1:end], "\n")
		if end > start+1 {
			content += "\n"
		}
		p.files = append(p.files, edit{line: start + 1, action: replace, names: []string{name}, content: content})
		p.at, p.hint = end+1, ""
	}
	return nil
}

// fenceEnd returns the index of the line that closes a code block, or that after the last line.
// Code blocks in it, as documents have them, begin with a language.
func (p *scanner) fenceEnd(at int, fence string) int {
	depth := 0
	for ; at < len(p.lines); at++ {
		switch text := p.lines[at]; {
		case closes(text, fence) && depth == 0:
			return at
		case closes(text, fence):
			depth--
		case fenceOf(text) == fence && !strings.ContainsAny(text[len(fence):], " `"):
			depth++
		}
	}
	return at
}

// infoPath returns the path in the line that opens a code block: "go internal/a.go", "go:internal/a.go"
// or "internal/a.go".
func infoPath(info string) string {
	if words := strings.Fields(info); len(words) == 2 {
		info = words[1]
	} else if _, name, ok := strings.Cut(info, ":"); ok {
		info = name
	}
	if !strings.ContainsAny(info, "./") {
		return ""
	}
	return pathLine(info)
}

var pathLabel = lazyregexp.New(`^(?i:file|path|filename)\s*:\s*`)

// pathLine returns the path if a line has nothing else than one, perhaps with Markdown around it.
func pathLine(text string) string {
	if len(text) > maxPath {
		return ""
	}
	bare := strings.Trim(strings.TrimSpace(text), "#*: \t")
	bare = pathLabel().ReplaceAllString(bare, "")
	name := strings.Trim(bare, "`*: \t")
	marked := len(name) < len(strings.TrimRight(strings.TrimSpace(text), ":"))
	switch base := path.Base(name); {
	case name == "" || strings.ContainsAny(name, " \t<>|\"'()[]{},;=") || strings.Contains(name, "://"),
		strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/"),
		!strings.ContainsAny(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
		!marked && !strings.ContainsAny(name, "./"):
		return ""
	}
	return name
}

// addHunk adds a hunk to an edit.
func (p *scanner) addHunk(f *edit, h hunk) error {
	p.hunks++
	switch {
	case p.hunks > maxHunks:
		return p.errorf(h.line-1, "the patch has more than %d hunks", maxHunks)
	case len(h.lines) > maxHunkLines:
		return p.errorf(h.line-1, "the hunk has more than %d lines", maxHunkLines)
	case !h.changes():
		return p.errorf(h.line-1, "the hunk changes nothing")
	}
	f.hunks = append(f.hunks, h)
	return nil
}
