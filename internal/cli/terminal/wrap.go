package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap breaks a line of text at spaces so that no part is wider than width, if width is positive.
// Continuation lines are indented by hang columns. Commands of coppice, which users copy, and words
// wider than a line are not broken.
func Wrap(line string, hang, width int) []string {
	if width <= 0 || ansi.StringWidth(line) <= width {
		return []string{line}
	}
	text := strings.TrimLeft(line, " ")
	lead := len(line) - len(text)
	hang = min(max(hang, lead), width/2)
	var lines []string
	current, column := strings.Repeat(" ", lead), lead
	empty := true // current has only the indentation
	for _, piece := range splitUnbreakable(text) {
		n := ansi.StringWidth(piece)
		if !empty && column+1+n > width {
			lines = append(lines, strings.TrimRight(current, " "))
			current, column, empty = strings.Repeat(" ", hang), hang, true
		}
		if !empty {
			current, column = current+" ", column+1
		}
		current, column, empty = current+piece, column+n, false
	}
	return append(lines, current)
}

// splitUnbreakable splits text at spaces, except within a command of coppice. A command ends with
// its line, or before a comma, a semicolon or a closing parenthesis.
func splitUnbreakable(text string) (pieces []string) {
	command := false
	for word := range strings.SplitSeq(text, " ") {
		if command {
			pieces[len(pieces)-1] += " " + word
		} else {
			pieces = append(pieces, word)
			command = ansi.Strip(word) == "coppice"
		}
		if command && strings.ContainsAny(word[max(0, len(word)-1):], ",;)") {
			command = false
		}
	}
	return pieces
}

// WrapAll wraps each of the lines.
func WrapAll(lines []string, hang, width int) (all []string) {
	for _, line := range lines {
		all = append(all, Wrap(line, hang, width)...)
	}
	return all
}
