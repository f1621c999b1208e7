// Package plaintext makes text of unknown origin safe to show on a terminal.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine converts a text to one plain line of at most limit bytes. A truncated line ends with
// an ellipsis.
func OneLine(text string, limit int) string {
	const more = "…"
	text = strings.TrimSpace(strings.ReplaceAll(Line(strings.ReplaceAll(text, "\n", " ")), "\t", " "))
	if len(text) <= limit {
		return text
	}
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// Cut returns at most limit bytes of a text as valid UTF-8, and " ..." after them if that is not all.
func Cut(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + " ..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Line makes a line of output safe to show on a terminal or to match.
//
// It removes escape sequences (CSI, OSC, DCS and others, in 7-bit and C1 form), control
// characters, and bidirectional controls, which can disguise a line. It keeps tabs. Carriage
// returns, which progress bars use, and Unicode line ends become blanks. The text of an
// unfinished sequence stays, so it cannot hide anything. The result is valid UTF-8, and Line
// does not change it again.
func Line(line string) string {
	if isPlain(line) {
		return line
	}
	var b strings.Builder
	b.Grow(len(line))
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		rest := line[i+size:]
		i += size
		switch {
		case r == 0x1b:
			i += escapeLength(rest)
		case r == 0x9b:
			i += controlLength(rest)
		case r == 0x9d || r == 0x90 || r == 0x98 || r == 0x9e || r == 0x9f:
			i += stringLength(rest)
		case r == '\r' || r == 0x2028 || r == 0x2029:
			b.WriteByte(' ')
		case isShown(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isPlain(s string) bool {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if ascii {
		return true
	}
	for _, r := range s {
		if !isShown(r) || r == 0x2028 || r == 0x2029 {
			return false
		}
	}
	return utf8.ValidString(s)
}

func isShown(r rune) bool {
	return r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}

// escapeLength returns the length of the sequence that follows an ESC (ECMA-48, 5.3).
func escapeLength(s string) int {
	if s == "" {
		return 0
	}
	switch c := s[0]; {
	case c == '[':
		return 1 + controlLength(s[1:])
	case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
		return 1 + stringLength(s[1:])
	case c >= 0x20 && c < 0x30: // intermediates, then one final
		if n := leading(s, 0x20, 0x2f); n < len(s) && s[n] >= 0x30 && s[n] < 0x7f {
			return n + 1
		}
		return 0
	case c >= 0x30 && c < 0x7f:
		return 1
	}
	return 0
}

// controlLength returns the length of the parameters, intermediate bytes and final byte of a
// control sequence, or 0 if it is unfinished.
func controlLength(s string) int {
	n := leading(s, 0x30, 0x3f)
	n += leading(s[n:], 0x20, 0x2f)
	if n < len(s) && s[n] >= 0x40 && s[n] < 0x7f {
		return n + 1
	}
	return 0
}

// stringLength returns the length of a command string with its terminator: ST, or BEL as in
// xterm. It returns 0 if the string is unfinished or interrupted by another control character.
func stringLength(s string) int {
	for i, r := range s {
		switch {
		case r == 0x07:
			return i + 1
		case r == 0x9c:
			return i + utf8.RuneLen(r)
		case r == 0x1b:
			if strings.HasPrefix(s[i+1:], `\`) {
				return i + 2
			}
			return 0
		case unicode.IsControl(r) && r != '\t':
			return 0
		}
	}
	return 0
}

// leading returns the number of leading bytes from lo to hi.
func leading(s string, lo, hi byte) int {
	n := 0
	for n < len(s) && s[n] >= lo && s[n] <= hi {
		n++
	}
	return n
}
