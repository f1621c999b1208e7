// Package source represents positions in source texts, so that every part of the
// Sage toolchain refers to them in the same way.
package source

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxSize is the size in bytes of the longest text there can be a File of.
const MaxSize = 64 << 20

// File is a named text and the table of its lines. It does not change.
type File struct {
	Name string // as a person would say it: a path, or "<stdin>"
	Text string

	lines []int32 // offset of the first byte of each line
}

// NewFile returns the File of a text of at most MaxSize bytes. A longer text is
// cut off; readers of files refuse it before.
func NewFile(name, text string) *File {
	if len(text) > MaxSize {
		text = text[:MaxSize]
	}
	lines := make([]int32, 1, len(text)/24+1)
	for at := 0; ; {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
		lines = append(lines, int32(at))
	}
	return &File{Name: name, Text: text, lines: lines}
}

// Lines is the number of lines; a text that ends with a line feed has an empty
// last one.
func (f *File) Lines() int { return len(f.lines) }

// Line returns the line with this number, counted from 1, without its end. It
// is "" for lines that do not exist.
func (f *File) Line(line int) string {
	if line < 1 || line > len(f.lines) {
		return ""
	}
	start, end := int(f.lines[line-1]), len(f.Text)
	if line < len(f.lines) {
		end = int(f.lines[line]) - 1
	}
	return strings.TrimSuffix(f.Text[start:end], "\r")
}

// LineStart is the offset at which the line with this number begins.
func (f *File) LineStart(line int) int {
	line = min(max(line, 1), len(f.lines))
	return int(f.lines[line-1])
}

// LineOf is the number of the line in which the byte at offset is, from 1.
func (f *File) LineOf(offset int) int {
	i, found := slices.BinarySearch(f.lines, int32(offset))
	if found {
		i++
	}
	return i
}

// Position tells line and column of an offset. Offsets outside of the text
// count as its ends.
func (f *File) Position(offset int) Position {
	offset = min(max(offset, 0), len(f.Text))
	line := f.LineOf(offset)
	start := f.LineStart(line)
	return Position{Name: f.Name, Offset: offset, Line: line, Column: utf8.RuneCountInString(f.Text[start:offset]) + 1}
}

// Span is the span of the bytes from start up to but without end.
func (f *File) Span(start, end int) Span {
	return Span{File: f, Start: int32(start), End: int32(end)}
}

// Position is a place for people.
type Position struct {
	Name   string // of the file
	Offset int    // in bytes, from 0
	Line   int    // from 1; 0 if there is no place
	Column int    // in runes, from 1
}

// String is name:line:column.
func (p Position) String() string {
	if p.Line == 0 {
		if p.Name == "" {
			return "-"
		}
		return p.Name
	}
	s := strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
	if p.Name == "" {
		return s
	}
	return p.Name + ":" + s
}

// Span is a part of a file: the bytes from Start up to but without End. The
// zero Span is nowhere.
type Span struct {
	File       *File
	Start, End int32
}

// Extent returns the span itself: what embeds a Span has an extent.
func (s Span) Extent() Span { return s }

// Valid reports whether the span is anywhere.
func (s Span) Valid() bool { return s.File != nil }

// Position returns where the span begins.
func (s Span) Position() Position {
	if s.File == nil {
		return Position{}
	}
	return s.File.Position(int(s.Start))
}

// Source is the text of the span.
func (s Span) Source() string {
	if s.File == nil || s.Start < 0 || s.End < s.Start || int(s.End) > len(s.File.Text) {
		return ""
	}
	return s.File.Text[s.Start:s.End]
}

// To is the span from the beginning of s to the end of t.
func (s Span) To(t Span) Span {
	return Span{File: s.File, Start: s.Start, End: max(s.End, t.End)}
}

// Before is the empty span at which s begins.
func (s Span) Before() Span { return Span{File: s.File, Start: s.Start, End: s.Start} }

// After is the empty span at which s ends.
func (s Span) After() Span { return Span{File: s.File, Start: s.End, End: s.End} }
