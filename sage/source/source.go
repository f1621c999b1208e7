// Package source represents positions in source texts for all parts of the Sage toolchain.
package source

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxSize is the size in bytes of the longest text that a File can hold.
const MaxSize = 64 << 20

// File is a named text with a table of its lines. It does not change.
type File struct {
	Name string // a path, or "<stdin>"
	Text string

	lines []int32 // offset of the first byte of each line
}

// NewFile returns the File of a text. Text after MaxSize bytes is dropped; readers of files reject
// such files.
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

// Lines returns the number of lines. A text that ends with a line feed has an empty last line.
func (f *File) Lines() int { return len(f.lines) }

// Line returns the line with this number, counted from 1, without its line end. Lines that do not
// exist are "".
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

// LineStart returns the offset of the start of a line.
func (f *File) LineStart(line int) int {
	line = min(max(line, 1), len(f.lines))
	return int(f.lines[line-1])
}

// LineOf returns the number of the line that contains the byte at offset, counted from 1.
func (f *File) LineOf(offset int) int {
	i, found := slices.BinarySearch(f.lines, int32(offset))
	if found {
		i++
	}
	return i
}

// Position returns the position of an offset. Offsets outside of the text are clamped.
func (f *File) Position(offset int) Position {
	offset = min(max(offset, 0), len(f.Text))
	line := f.LineOf(offset)
	start := f.LineStart(line)
	return Position{Name: f.Name, Offset: offset, Line: line, Column: utf8.RuneCountInString(f.Text[start:offset]) + 1}
}

// Span returns the span of the bytes from start up to, but not including, end.
func (f *File) Span(start, end int) Span {
	return Span{File: f, Start: int32(start), End: int32(end)}
}

// Position is a position for people.
type Position struct {
	Name   string // name of the file
	Offset int    // in bytes, from 0
	Line   int    // from 1; 0 if unknown
	Column int    // in runes, from 1
}

// String returns name:line:column.
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

// Span is a part of a file: the bytes from Start up to, but not including, End. The zero Span is
// nowhere.
type Span struct {
	File       *File
	Start, End int32
}

// Extent returns the span itself. Types that embed a Span get this method.
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

// Source returns the text of the span.
func (s Span) Source() string {
	if s.File == nil || s.Start < 0 || s.End < s.Start || int(s.End) > len(s.File.Text) {
		return ""
	}
	return s.File.Text[s.Start:s.End]
}

// To returns the span from the start of s to the end of t.
func (s Span) To(t Span) Span {
	return Span{File: s.File, Start: s.Start, End: max(s.End, t.End)}
}

// Before returns the empty span at the start of s.
func (s Span) Before() Span { return Span{File: s.File, Start: s.Start, End: s.Start} }

// After returns the empty span at the end of s.
func (s Span) After() Span { return Span{File: s.File, Start: s.End, End: s.End} }
