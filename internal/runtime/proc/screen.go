package proc

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// OnScreen returns a line of output as a terminal shows it in the end. Programs overwrite what
// they have written, for example in progress bars: a carriage return moves to the beginning of
// the line, a backspace moves back one column, and some sequences erase the line. Everything
// else is as in plaintext.Line. The result is plain text, and OnScreen does not change it again.
func OnScreen(line string) string {
	if !strings.ContainsAny(line, "\r\b") && !moves().MatchString(line) {
		return plaintext.Line(line)
	}
	var s row
	for line != "" {
		text, move := line, ""
		if at := moves().FindStringIndex(line); at != nil {
			text, move = line[:at[0]], line[at[0]:at[1]]
		}
		line = line[len(text)+len(move):]
		s.write(plaintext.Line(text))
		switch {
		case move == "":
		case move == "\b":
			s.at = max(0, s.at-1)
		case move == "\r" || move[len(move)-1] == 'G':
			s.at = 0
		case move == "\x1b[2K": // programs that clear a line continue at its beginning
			s.at, s.cells = 0, s.cells[:0]
		default: // erases to the end of the line
			s.cells = s.cells[:min(s.at, len(s.cells))]
		}
	}
	return strings.TrimRight(strings.Join(s.cells, ""), " ")
}

// moves matches what moves the cursor in the line or erases a part of the line. None of it can
// occur inside a command string, which it terminates.
var moves = lazyregexp.New("\r|\b|\x1b\\[[02]?K|\x1b\\[[01]?G")

// row is a line of a terminal.
type row struct {
	cells []string // one for each column; "" is the second half of a wide character
	at    int
}

// tabStop is the distance of tab stops.
const tabStop = 8

func (s *row) write(text string) {
	for text != "" {
		if text[0] == '\t' {
			text = text[1:]
			s.at += tabStop - s.at%tabStop
			continue
		}
		char, width := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
		text = text[len(char):]
		if width <= 0 { // combines with the character before it
			if last := min(s.at, len(s.cells)) - 1; last >= 0 && last == s.at-1 {
				s.cells[last] += char
			}
			continue
		}
		s.fill(s.at)
		s.clear(s.at)
		s.fill(s.at + width)
		s.clear(s.at + width) // the second half of a character that was cut
		s.cells[s.at] = char
		for i := 1; i < width; i++ {
			s.cells[s.at+i] = ""
		}
		s.at += width
	}
}

// fill extends the row to a column.
func (s *row) fill(to int) {
	for len(s.cells) < to {
		s.cells = append(s.cells, " ")
	}
}

// clear replaces a wide character that a column would split with blanks.
func (s *row) clear(column int) {
	if column >= len(s.cells) || s.cells[column] != "" {
		return
	}
	for i := column; i < len(s.cells) && s.cells[i] == ""; i++ {
		s.cells[i] = " "
	}
	for i := column - 1; i >= 0; i-- {
		was := s.cells[i]
		s.cells[i] = " "
		if was != "" {
			break
		}
	}
}
