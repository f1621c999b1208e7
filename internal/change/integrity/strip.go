package integrity

import "strings"

// syntax says where comments and strings are.
type syntax struct {
	line        string // begins a comment up to the end of the line
	word        bool   // but only at the start of a word
	open, close string // around a comment
	quotes      string // each begins and ends a string within a line
	long        string // each begins and ends a string of several lines
	triple      bool   // three quotes begin and end a string of several lines, too
	char        bool   // ' only begins a literal of one character
}

// strip returns a text of the same length in which comments and the content of strings are blank.
func (s syntax) strip(text string) string {
	out := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	until := func(from int, end string, escapes, inLine bool) int { // after the end
		for i := from; i < len(text); i++ {
			switch {
			case text[i] == '\\' && escapes:
				i++
			case strings.HasPrefix(text[i:], end):
				return i + len(end)
			case text[i] == '\n' && inLine:
				return i + 1
			}
		}
		return len(text)
	}
	for i := 0; i < len(text); {
		rest, start := text[i:], i
		switch c := text[i]; {
		case s.open != "" && strings.HasPrefix(rest, s.open):
			i = until(i+len(s.open), s.close, false, false)
			blank(start, i)
		case strings.HasPrefix(rest, s.line) && (!s.word || i == 0 || strings.IndexByte(" \t\n;(", text[i-1]) >= 0):
			i = until(i, "\n", false, false)
			blank(start, i)
		case s.triple && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, `'''`)):
			i = until(i+3, rest[:3], true, false)
			blank(start+3, max(start+3, i-3))
		case strings.IndexByte(s.long, c) >= 0:
			i = until(i+1, rest[:1], c != '\'', false)
			blank(start+1, max(start+1, i-1))
		case strings.IndexByte(s.quotes, c) >= 0:
			i = until(i+1, rest[:1], true, true)
			blank(start+1, max(start+1, i-1))
		case s.char && c == '\'' && len(rest) > 3 && rest[1] == '\\' && rest[3] == '\'':
			i += 4
			blank(start, i)
		case s.char && c == '\'' && len(rest) > 2 && rest[2] == '\'':
			i += 3
			blank(start, i)
		default:
			i++
		}
	}
	return string(out)
}
