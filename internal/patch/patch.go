// Package patch applies the edits that language models write: unified diffs, search and replace blocks,
// whole files, and patches as codex writes them. Models miscount lines and lose white space, so
// an edit is searched for: exactly at first, then with growing tolerance. What fits two places, or none, is
// refused, and then nothing of the patch is applied.
//
// Parse reads edits, Plan applies them to texts, and Apply applies them to a directory.
package patch

import (
	"fmt"
	"io/fs"
	"strings"
)

// Bounds of a patch and of what it changes.
const (
	MaxBytes     = 10 << 20 // of a patch, and of each file before and after
	maxFiles     = 1000     // that a patch edits
	maxHunks     = 10_000   // of a patch
	maxHunkLines = 20_000   // of a hunk
	maxLines     = 500_000  // of a patch, and of each file
	maxPath      = 4096     // bytes of a path
	maxWork      = 1 << 26  // comparisons of lines for a patch
)

// Patch is a parsed patch.
type Patch struct{ files []edit }

// SyntaxError reports text that looks like an edit and is none.
type SyntaxError struct {
	Line    int // in the patch, from 1
	Problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// action says what an edit does to a file.
type action string

const (
	update  action = "update"
	create  action = "create"
	remove  action = "delete"
	replace action = "replace" // or create
)

// edit is one edit of one file.
type edit struct {
	line    int // in the patch, from 1
	action  action
	names   []string // the path; several if the patch does not decide: the one that exists
	moveTo  []string // the new path; empty if the file is not renamed
	mode    fs.FileMode
	hasMode bool // mode says whether the file is executable
	hunks   []hunk
	ordered bool   // the hunks are in the order of the file
	content string // of create and replace
}

// hunk is one change of a file, with the lines around it.
type hunk struct {
	line      int // in the patch, from 1
	start     int // the line of the file before the change, from 1; 0 if it is unknown
	newStart  int // the line after it
	lines     []line
	missing   int  // lines that the header counts and the input ends before
	oldNoEnd  bool // the file ends without a newline
	newNoEnd  bool // it will
	atEnd     bool // the hunk is the end of the file
	anchors   []string
	placement placement // relative to the anchor; none if the lines say where the change is
}

// placement says where added lines go, relative to an anchor.
type placement string

const (
	before    placement = "before"
	after     placement = "after"
	insteadOf placement = "replace"
	atTheEnd  placement = "append"
)

// line is a line of a hunk.
type line struct {
	kind byte // ' ' context, '-' removed, '+' added
	text string
}

// side returns the lines of a hunk without those of a kind: '+' gives the old text, '-' the new one.
func (h *hunk) side(without byte) []line {
	var all []line
	for _, l := range h.lines {
		if l.kind != without {
			all = append(all, l)
		}
	}
	return all
}

// changes reports whether the two sides of a hunk differ.
func (h *hunk) changes() bool {
	before, after := h.side('+'), h.side('-')
	if len(before) != len(after) || h.oldNoEnd != h.newNoEnd {
		return true
	}
	for i := range before {
		if before[i].text != after[i].text {
			return true
		}
	}
	return false
}

// Report describes what a patch has done, or would do.
type Report struct {
	Applied bool         `json:"applied"` // whether files were written
	Files   []FileReport `json:"files"`
}

// FileReport describes what one edit does to a file.
type FileReport struct {
	Path   string       `json:"path"`
	From   string       `json:"from,omitempty"` // the former path of a renamed file
	Action string       `json:"action"`         // update, create, delete or replace
	Line   int          `json:"line"`           // in the patch
	Done   bool         `json:"done,omitempty"` // already applied
	Error  string       `json:"error,omitempty"`
	Hunks  []HunkReport `json:"hunks,omitempty"`
}

// HunkReport describes where a hunk fits.
type HunkReport struct {
	Hunk      int      `json:"hunk"` // its number among those of the file, from 1
	Line      int      `json:"line"` // in the patch
	At        int      `json:"at,omitempty"`
	Offset    int      `json:"offset,omitempty"`    // lines between the place in the header and the one found
	Tolerated []string `json:"tolerated,omitempty"` // what differs between the hunk and the file
	Done      bool     `json:"done,omitempty"`      // already applied
	Error     string   `json:"error,omitempty"`
}

// Failed reports whether an edit does not apply.
func (r *Report) Failed() bool {
	for _, f := range r.Files {
		if f.failed() {
			return true
		}
	}
	return false
}

func (f *FileReport) failed() bool {
	for _, h := range f.Hunks {
		if h.Error != "" {
			return true
		}
	}
	return f.Error != ""
}

// Lines returns a line of text for each file and hunk.
func (r *Report) Lines() []string {
	var all []string
	for i := range r.Files {
		f := &r.Files[i]
		if text := f.text(r.Applied); text != "" {
			all = append(all, f.Path+": "+text)
		}
		for _, h := range f.Hunks {
			if h.Error != "" || f.Error == "" && !f.Done && f.Action == string(update) {
				all = append(all, f.Path+": "+h.text(r.Applied))
			}
		}
	}
	return all
}

// text describes what happens to a file as a whole; "" if its hunks say it.
func (f *FileReport) text(applied bool) string {
	text := map[string]string{"create": "created", "delete": "deleted", "replace": "replaced"}[f.Action]
	switch {
	case f.Error != "":
		return fmt.Sprintf("%s (line %d of the patch)", f.Error, f.Line)
	case f.Done:
		return "already applied"
	case f.From != "":
		text = "renamed from " + f.From
	case f.Action == string(update) && len(f.Hunks) == 0:
		text = "mode changed"
	case f.Action == string(update):
		return ""
	}
	if applied {
		return text
	}
	return "would be " + text
}

func (h *HunkReport) text(applied bool) string {
	text := fmt.Sprintf("hunk %d", h.Hunk)
	switch {
	case h.Error != "":
		return fmt.Sprintf("%s %s (line %d of the patch)", text, h.Error, h.Line)
	case h.Done:
		text += " is already applied"
	case applied:
		text += " applied"
	default:
		text += " applies"
	}
	if h.Offset != 0 {
		where := "down"
		if h.Offset < 0 {
			where = "up"
		}
		text += fmt.Sprintf(" %s further %s", lineCount(max(h.Offset, -h.Offset)), where)
	}
	return strings.Join(append([]string{text}, h.Tolerated...), ", ")
}

func lineCount(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}
