package lsp

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/source"
)

// document is a file that is being edited.
type document struct {
	uri     string // as the client writes it
	path    string // see pathOf
	version int
	text    string
	// lost says why the text is no longer known; it stays so until the
	// document is opened again.
	lost error
}

// apply makes the text what it is after a change.
func (d *document) apply(changes []contentChange) {
	for _, c := range changes {
		if c.Range == nil {
			d.text, d.lost = c.Text, nil
			continue
		}
		if d.lost != nil {
			continue
		}
		if len(d.text)+len(c.Text) > source.MaxSize {
			d.lost = fmt.Errorf("it has more than %d bytes", source.MaxSize)
			d.text = ""
			continue
		}
		f := source.NewFile("", d.text)
		start, end := offsetAt(f, c.Range.Start), offsetAt(f, c.Range.End)
		if start > end {
			start, end = end, start
		}
		d.text = d.text[:start] + c.Text + d.text[end:]
	}
}

// fault is why the document cannot be a program, nil if it can.
func (d *document) fault() error {
	if d.lost == nil && len(d.text) > load.MaxSize {
		return fmt.Errorf("it has more than %d bytes", load.MaxSize)
	}
	return d.lost
}

// edits are the edits that turn one text into another: as few lines as possible
// of what is in between.
func edits(before *source.File, after string) []textEdit {
	if before.Text == after {
		return []textEdit{}
	}
	start := 0
	for {
		n := strings.IndexByte(after[start:], '\n') + 1
		if n == 0 || !strings.HasPrefix(before.Text[start:], after[start:start+n]) {
			break
		}
		start += n
	}
	end, last := len(before.Text), len(after)
	for {
		// The line before the last one that is the same, of both.
		b := strings.LastIndexByte(before.Text[start:max(start, end-1)], '\n') + 1 + start
		a := strings.LastIndexByte(after[start:max(start, last-1)], '\n') + 1 + start
		if b == start || a == start || before.Text[b:end] != after[a:last] {
			break
		}
		end, last = b, a
	}
	return []textEdit{{Range: rangeOf(before.Span(start, end)), NewText: after[start:last]}}
}
