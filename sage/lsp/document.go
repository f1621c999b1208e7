package lsp

import (
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/source"
)

// document is a file that is being edited.
type document struct {
	uri     string // as written by the client
	path    string // see pathOf
	version int
	text    string
	// lost tells why the text is unknown, until the document is opened again.
	lost error
}

// apply applies changes to the text.
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

// fault returns why the document cannot be a program, nil if it can.
func (d *document) fault() error {
	if d.lost == nil && len(d.text) > load.MaxSize {
		return fmt.Errorf("it has more than %d bytes", load.MaxSize)
	}
	return d.lost
}

// edits returns the edits that turn one text into another. They replace the lines between the
// common first and last ones.
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
		// Compare the lines before the common end of both texts.
		b := strings.LastIndexByte(before.Text[start:max(start, end-1)], '\n') + 1 + start
		a := strings.LastIndexByte(after[start:max(start, last-1)], '\n') + 1 + start
		if b == start || a == start || before.Text[b:end] != after[a:last] {
			break
		}
		end, last = b, a
	}
	return []textEdit{{Range: rangeOf(before.Span(start, end)), NewText: after[start:last]}}
}
