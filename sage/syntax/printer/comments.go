package printer

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// notes are the comments of a node.
type notes struct {
	leading  []syntax.Comment // before it, on their own lines
	inner    []syntax.Comment // in it, before its children
	trailing []syntax.Comment // after it, on its line or on their own lines
}

// attachment assigns every comment of a file to a node. A comment after something belongs to it.
// One on its own line belongs to what follows, or to what precedes it if nothing follows.
type attachment struct {
	text  string
	notes map[syntax.Node]*notes
	parts map[syntax.Node][]syntax.Node // cache of partsOf
}

func attach(f *syntax.File) *attachment {
	a := &attachment{notes: map[syntax.Node]*notes{}, parts: map[syntax.Node][]syntax.Node{}}
	if f.File != nil {
		a.text = f.File.Text
	}
	for _, c := range f.Comments {
		a.attach(f, c)
	}
	return a
}

func (a *attachment) attach(in syntax.Node, c syntax.Comment) {
	for {
		parts := a.partsOf(in)
		i, _ := slices.BinarySearchFunc(parts, c.Start, func(n syntax.Node, at int32) int {
			if n.Extent().Start < at {
				return -1
			}
			return 1
		})
		// parts[i-1] is the last part that starts before the comment.
		if i > 0 && c.Start < parts[i-1].Extent().End {
			in = parts[i-1]
			continue
		}
		own := a.ownLine(c)
		switch {
		case i == len(parts) && a.inEmpty(in, parts, c):
			n := a.notesOf(in)
			n.inner = append(n.inner, c)
		case i > 0 && (!own || i == len(parts)):
			n := a.notesOf(parts[i-1])
			n.trailing = append(n.trailing, c)
		case own && i < len(parts):
			if isBlock(parts[i]) {
				// Before the brace: in the block, it precedes the statements as well.
				in = parts[i]
				continue
			}
			n := a.notesOf(parts[i])
			n.leading = append(n.leading, c)
		default:
			n := a.notesOf(in)
			n.inner = append(n.inner, c)
		}
		return
	}
}

// inEmpty reports whether a comment is inside the empty braces or parentheses that end a node.
func (a *attachment) inEmpty(n syntax.Node, parts []syntax.Node, c syntax.Comment) bool {
	span := n.Extent()
	if c.Start < span.Start {
		return true // before the brace of an empty block
	}
	if int(span.End) > len(a.text) || span.End <= span.Start {
		return false
	}
	start := span.Start
	if len(parts) > 0 {
		start = parts[len(parts)-1].Extent().End
	}
	open := byte('{')
	switch a.text[span.End-1] {
	case ')':
		open = '('
	case '}':
	default:
		return false
	}
	between := a.text[start:c.Start]
	for len(between) > 0 {
		var line string
		line, between, _ = strings.Cut(between, "\n")
		line, _, _ = strings.Cut(line, "//")
		if strings.IndexByte(line, open) >= 0 {
			return true
		}
	}
	return false
}

func isBlock(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.Block, *syntax.BlockExpr:
		return true
	}
	return false
}

func (a *attachment) notesOf(n syntax.Node) *notes {
	if b, ok := n.(*syntax.BlockExpr); ok {
		n = b.Block
	}
	found := a.notes[n]
	if found == nil {
		found = &notes{}
		a.notes[n] = found
	}
	return found
}

// comments returns the comments of a node, without adding an entry for it.
func (a *attachment) comments(n syntax.Node) notes {
	if found := a.notes[n]; found != nil {
		return *found
	}
	return notes{}
}

// partsOf returns the children of n that have an extent.
func (a *attachment) partsOf(n syntax.Node) []syntax.Node {
	parts, ok := a.parts[n]
	if !ok {
		syntax.VisitChildren(n, func(child syntax.Node) {
			if child.Extent().Valid() {
				parts = append(parts, child)
			}
		})
		slices.SortStableFunc(parts, func(a, b syntax.Node) int { return int(a.Extent().Start - b.Extent().Start) })
		a.parts[n] = parts
	}
	return parts
}

// ownLine reports whether only white space precedes the comment on its line.
func (a *attachment) ownLine(c syntax.Comment) bool {
	return lineEndsBefore(a.text, c.Start) > 0
}

// lineEndsBefore counts the line ends in the white space before an offset. The start of the text
// counts as one.
func lineEndsBefore(text string, offset int32) int {
	n, start := 0, 0
	if strings.HasPrefix(text, "\ufeff") {
		start = len("\ufeff")
	}
	for i := int(offset) - 1; i >= start; i-- {
		switch text[i] {
		case '\n':
			n++
		case ' ', '\t', '\r':
		default:
			return n
		}
	}
	return n + 1
}
