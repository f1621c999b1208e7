package patch

import "strings"

// The format of codex's apply_patch: operations on files between "*** Begin Patch" and "*** End Patch".
// "@@ after NAME", "@@ before NAME" and "@@ replace NAME" are extensions of it.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	deleteFile = "*** Delete File: "
	updateFile = "*** Update File: "
	moveTo     = "*** Move to: "
	endOfFile  = "*** End of File"
)

// startsEnvelope reports whether a line begins such a patch or an operation of it.
func startsEnvelope(text string) bool {
	return strings.TrimSpace(text) == beginPatch || strings.HasPrefix(text, addFile) ||
		strings.HasPrefix(text, deleteFile) || strings.HasPrefix(text, updateFile)
}

// envelope reads the operations up to "*** End Patch".
func (p *scanner) envelope() error {
	start := p.at
	for p.at < len(p.lines) {
		text := p.peek(0)
		f := edit{line: p.at + 1}
		var err error
		switch {
		case strings.TrimSpace(text) == endPatch:
			p.at++
			return nil
		case strings.HasPrefix(text, addFile):
			f.action, f.names = create, []string{strings.TrimSpace(text[len(addFile):])}
			p.at++
			err = p.addedFile(&f)
		case strings.HasPrefix(text, deleteFile):
			f.action, f.names = remove, []string{strings.TrimSpace(text[len(deleteFile):])}
			p.at++
		case strings.HasPrefix(text, updateFile):
			f.action, f.names = update, []string{strings.TrimSpace(text[len(updateFile):])}
			p.at++
			err = p.updatedFile(&f)
		case strings.TrimSpace(text) == "" || strings.TrimSpace(text) == beginPatch:
			p.at++
			continue
		default:
			return p.errorf(p.at, "expected an operation on a file, such as %q, or %q", updateFile+"PATH", endPatch)
		}
		if err != nil {
			return err
		}
		p.files = append(p.files, f)
		if len(p.files) > maxFiles {
			return nil // Parse reports it
		}
	}
	return p.errorf(start, "%q is missing: the patch is truncated", endPatch)
}

// addedFile reads the lines of a new file.
func (p *scanner) addedFile(f *edit) error {
	var b strings.Builder
	for ; p.at < len(p.lines) && !strings.HasPrefix(p.peek(0), "*** "); p.at++ {
		text, ok := strings.CutPrefix(p.peek(0), "+")
		if !ok && text != "" {
			return p.errorf(p.at, "expected a line of the new file, with + in front")
		}
		b.WriteString(text + "\n")
	}
	f.content = b.String()
	return nil
}

// updatedFile reads the hunks of a file.
func (p *scanner) updatedFile(f *edit) error {
	f.ordered = true
	if text := p.peek(0); strings.HasPrefix(text, moveTo) {
		f.moveTo = []string{strings.TrimSpace(text[len(moveTo):])}
		p.at++
	}
	for p.at < len(p.lines) && !startsEnvelope(p.peek(0)) && strings.TrimSpace(p.peek(0)) != endPatch {
		if strings.TrimSpace(p.peek(0)) == "" {
			p.at++
			continue
		}
		h := hunk{line: p.at + 1}
		for ; startsHunk(p.peek(0)); p.at++ {
			if anchor := strings.TrimSpace(p.peek(0)[2:]); anchor != "" {
				h.anchors = append(h.anchors, anchor)
			}
		}
		from := p.at
		p.body(&h, counts{})
		if strings.TrimSpace(p.peek(0)) == endOfFile {
			h.atEnd = true
			p.at++
		}
		if err := p.place(&h); err != nil {
			return err
		}
		if p.at == from {
			return p.errorf(p.at, "expected the lines of a hunk")
		}
		if err := p.addHunk(f, h); err != nil {
			return err
		}
	}
	if len(f.hunks) == 0 && f.moveTo == nil {
		return p.errorf(f.line-1, "the update of %s has no hunks", f.names[0])
	}
	return nil
}

// place decides where a hunk goes that has nothing but added lines.
func (p *scanner) place(h *hunk) error {
	for _, l := range h.lines {
		if l.kind != '+' {
			return nil
		}
	}
	if len(h.anchors) == 0 {
		h.placement = atTheEnd
		return nil
	}
	last := len(h.anchors) - 1
	for _, where := range []placement{before, after, insteadOf} {
		if name, ok := strings.CutPrefix(h.anchors[last], string(where)+" "); ok && name != "" {
			h.anchors[last], h.placement = strings.TrimSpace(name), where
			return nil
		}
	}
	return p.errorf(h.line-1, `the hunk has only added lines; write "@@ after NAME", "@@ before NAME" or `+
		`"@@ replace NAME", or lines of context`)
}
