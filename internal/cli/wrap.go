package cli

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// wrap breaks a line of text at spaces so that no part is wider than width, if that is
// positive; continuations are indented by hang columns. Commands to copy stay whole, and
// what is wider than a line by itself does, too.
func wrap(line string, hang, width int) []string {
	if width <= 0 || ansi.StringWidth(line) <= width {
		return []string{line}
	}
	text := strings.TrimLeft(line, " ")
	lead := len(line) - len(text)
	hang = min(max(hang, lead), width/2)
	var lines []string
	current, column := strings.Repeat(" ", lead), lead
	empty := true // nothing but the indentation is there
	for _, piece := range unbroken(text) {
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

// unbroken splits text at its spaces, except within a command of coppice: that ends
// with its line, or in front of a comma, a semicolon or a closing parenthesis.
func unbroken(text string) (pieces []string) {
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

// printText prints lines, wrapped where a terminal shows them.
func (s *streams) printText(lines []string, hang int) error {
	width, _ := isTerminal(s.out)
	return s.printLines(wrapAll(lines, hang, width))
}

// complain prints an error or a warning, wrapped where a terminal shows it.
func (s *streams) complain(message string) {
	width, _ := isTerminal(s.err)
	io.WriteString(s.err, strings.Join(wrapAll(strings.Split("coppice: "+message, "\n"), 4, width), "\n")+"\n")
}

func wrapAll(lines []string, hang, width int) (all []string) {
	for _, line := range lines {
		all = append(all, wrap(line, hang, width)...)
	}
	return all
}
