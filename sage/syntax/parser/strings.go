package parser

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// str scans a string, or its part up to the first interpolation.
func (s *scanner) str(quote byte) {
	if len(s.braces) == 0 {
		s.begun = s.mark()
	}
	if quote == '\'' {
		s.text(quote, syntax.String, syntax.String)
	} else {
		s.text(quote, syntax.TemplateHead, syntax.String)
	}
}

// text scans the text of a string, from the quote or brace before it to the one after it. The
// latter determines whether the token has the kind open or closed.
func (s *scanner) text(quote byte, open, closed syntax.Kind) {
	start := s.pos
	s.pos++
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == quote:
			s.pos++
			s.emit(closed, start)
			s.noteSuspect()
			return
		case c == '{' && quote == '"':
			if s.braceIsText() {
				s.pos++
				continue
			}
			if s.peek(1) == '}' { // an empty JSON object: empty braces are text
				s.pos += 2
				continue
			}
			s.pos++
			s.emit(open, start)
			s.braces = append(s.braces, 0)
			return
		case c == '\\':
			s.escape()
		default:
			s.char("a string")
		}
	}
	s.unterminated()
}

// braceIsText reports whether an escape follows the brace. No expression can start with one:
// "{\"name\": {name}}" is JSON with an interpolation.
func (s *scanner) braceIsText() bool {
	i := s.pos + 1
	for i < len(s.src) && (s.src[i] == ' ' || s.src[i] == '\t') {
		i++
	}
	return i < len(s.src) && s.src[i] == '\\'
}

// noteSuspect remembers a multi-line string that a name follows immediately. Most likely its quote
// is missing, and the quote that closed it was meant to open the next string.
func (s *scanner) noteSuspect() {
	if len(s.braces) > 0 || s.suspect.set || s.pos >= len(s.src) || !isLetter(s.src[s.pos]) {
		return
	}
	if strings.IndexByte(s.src[s.begun.pos:s.pos], '\n') >= 0 {
		s.suspect = s.begun
	}
}

func (s *scanner) mark() mark {
	return mark{set: true, pos: s.pos, tokens: len(s.tokens), comments: len(s.comments),
		diagnostics: len(s.diagnostics)}
}

// unterminated reports a string that continues to the end of the file, and resumes after the line
// in which it starts.
func (s *scanner) unterminated() {
	m := s.begun
	if s.suspect.set {
		m = s.suspect
	}
	s.suspect, s.braces = mark{}, s.braces[:0]
	s.tokens, s.comments, s.diagnostics = s.tokens[:m.tokens], s.comments[:m.comments], s.diagnostics[:m.diagnostics]
	quote := s.src[m.pos : m.pos+1]
	help := "add the closing " + quote
	end := len(s.src)
	if n := strings.IndexByte(s.src[m.pos:], '\n'); n >= 0 {
		end = m.pos + n
	}
	if quote == `"` && strings.Contains(s.src[m.pos:end], "{") {
		help += "; write \\{ for a brace that is text"
	}
	s.report(m.pos, m.pos+1, syntax.CodeString, "this string never ends", help)
	s.pos = end
	if s.retries++; s.retries > maxRetries {
		s.pos = len(s.src)
	}
	s.emit(syntax.Invalid, m.pos)
}

// escape scans an escape sequence.
func (s *scanner) escape() {
	start := s.pos
	_, n, ok := unescape(s.src[s.pos:])
	s.pos += n
	if ok {
		return
	}
	help := `known are \n \t \r \\ \" \' \{ \} \xNN and \u{…}; a backslash is written \\`
	switch s.src[min(start+1, len(s.src)-1)] {
	case 'x':
		help = `two hexadecimal digits follow \x, as in \x1b`
	case 'u':
		help = `one to six hexadecimal digits in braces follow \u, as in \u{1f33f}`
	}
	s.report(start, s.pos, syntax.CodeString, "this escape is not known", help)
}

// unescape decodes the escape at the start of s: the character and the length of the escape. If it
// is not ok, n is the length of the part that certainly belongs to it.
func unescape(s string) (r rune, n int, ok bool) {
	if len(s) < 2 {
		return 0, len(s), false
	}
	switch s[1] {
	case 'n':
		return '\n', 2, true
	case 't':
		return '\t', 2, true
	case 'r':
		return '\r', 2, true
	case '\\', '"', '\'', '{', '}':
		return rune(s[1]), 2, true
	case 'x':
		if len(s) >= 4 {
			if v, err := strconv.ParseUint(s[2:4], 16, 8); err == nil {
				return rune(v), 4, true
			}
		}
		return 0, 2, false
	case 'u':
		if !strings.HasPrefix(s[2:], "{") {
			return 0, 2, false
		}
		end := strings.IndexByte(s[:min(len(s), 10)], '}')
		if end < 0 {
			return 0, 3, false
		}
		v, err := strconv.ParseUint(s[3:end], 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) {
			return 0, end + 1, false
		}
		return rune(v), end + 1, true
	}
	if s[1] < utf8.RuneSelf && s[1] >= 0x20 {
		return 0, 2, false
	}
	return 0, 1, false
}

// textValue returns the value of the text of a string, without its quotes.
func textValue(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			i++
			continue
		}
		r, n, ok := unescape(text[i:])
		if ok {
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// Quote escapes a value for a string in double quotes, without adding the quotes.
func Quote(value string) string {
	var b strings.Builder
	for _, r := range value {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case strings.ContainsRune(`\"{}`, r):
			b.WriteString(`\` + string(r))
		case isHidden(r):
			b.WriteString(escapeRune(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func escapeRune(r rune) string { return fmt.Sprintf(`\u{%x}`, r) }

func codePoint(r rune) string { return fmt.Sprintf("U+%04X", r) }
