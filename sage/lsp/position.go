package lsp

import (
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/sage/source"
)

// offsetAt returns the offset of a position, or the nearest one if the position does not exist.
func offsetAt(f *source.File, p position) int {
	if p.Line < 0 {
		return 0
	}
	if p.Line >= f.Lines() {
		return len(f.Text)
	}
	offset := f.LineStart(p.Line + 1)
	units := p.Character
	for units > 0 && offset < len(f.Text) {
		c := f.Text[offset]
		if c == '\n' || c == '\r' && strings.HasPrefix(f.Text[offset:], "\r\n") {
			break
		}
		r, size := utf8.DecodeRuneInString(f.Text[offset:])
		if r > 0xffff {
			if units == 1 { // within a surrogate pair
				break
			}
			units--
		}
		units--
		offset += size
	}
	return offset
}

// positionAt is the inverse of offsetAt.
func positionAt(f *source.File, offset int) position {
	offset = min(max(offset, 0), len(f.Text))
	line := f.LineOf(offset)
	units := 0
	for _, r := range f.Text[f.LineStart(line):offset] {
		units++
		if r > 0xffff {
			units++
		}
	}
	return position{Line: line - 1, Character: units}
}

func rangeOf(s source.Span) textRange {
	if !s.Valid() {
		return textRange{}
	}
	return textRange{positionAt(s.File, int(s.Start)), positionAt(s.File, int(s.End))}
}

// pathOf returns the path of a document, or its URI if it is not a file.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
		return uri
	}
	return filepath.Clean(u.Path)
}

// uriOf is the inverse of pathOf.
func uriOf(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
