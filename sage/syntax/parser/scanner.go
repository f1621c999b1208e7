package parser

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

// Scan splits a text into tokens, the last of which is EOF, and comments. It accepts any text. It
// reports characters that form no token and returns them as Invalid tokens.
func Scan(file *source.File) ([]syntax.Token, []syntax.Comment, []diag.Diagnostic) {
	s := scanner{file: file, src: file.Text}
	s.tokens = make([]syntax.Token, 0, len(s.src)/5+8)
	s.scan()
	return s.tokens, s.comments, s.diagnostics
}

type scanner struct {
	file        *source.File
	src         string
	pos         int
	tokens      []syntax.Token
	comments    []syntax.Comment
	diagnostics []diag.Diagnostic

	// braces counts the open braces in each open interpolation, the innermost last.
	braces []int

	// Where to resume after an unterminated string: at the last string, or at an earlier one whose
	// closing quote seems to be missing.
	begun, suspect mark
	retries        int
}

// mark is a state of the scanner just before a string that is not nested in another.
type mark struct {
	set                           bool
	pos                           int
	tokens, comments, diagnostics int
}

// maxRetries bounds how often unterminated strings are scanned again.
const maxRetries = 16

func (s *scanner) scan() {
	s.bom()
	for {
		for s.pos < len(s.src) {
			s.next()
		}
		if len(s.braces) == 0 {
			break
		}
		s.unterminated()
	}
	s.emit(syntax.EOF, s.pos)
}

// bom skips a UTF-8 byte order mark and rejects UTF-16.
func (s *scanner) bom() {
	switch {
	case strings.HasPrefix(s.src, "\ufeff"):
		s.pos = len("\ufeff")
	case strings.HasPrefix(s.src, "\xff\xfe"), strings.HasPrefix(s.src, "\xfe\xff"):
		s.report(0, 2, syntax.CodeCharacter, "this file is encoded in UTF-16", "save it as UTF-8")
		s.pos = len(s.src)
	}
}

func (s *scanner) emit(k syntax.Kind, start int) {
	s.tokens = append(s.tokens, syntax.Token{Kind: k, Start: int32(start), End: int32(s.pos)})
}

func (s *scanner) report(start, end int, code, message, help string) {
	if len(s.diagnostics) < maxDiagnostics {
		s.diagnostics = append(s.diagnostics, diag.Diagnostic{Span: s.file.Span(start, end), Code: code,
			Message: message, Help: help})
	}
}

// peek returns the byte n after the current one, 0 past the end.
func (s *scanner) peek(n int) byte {
	if s.pos+n < len(s.src) {
		return s.src[s.pos+n]
	}
	return 0
}

// next scans white space, a comment or a token.
func (s *scanner) next() {
	start := s.pos
	c := s.src[s.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\n':
		s.pos++
	case c == '\r' && s.peek(1) == '\n':
		s.pos += 2
	case isLetter(c):
		s.word()
		s.emit(syntax.Lookup(s.src[start:s.pos]), start)
	case isDigit(c):
		s.number()
	case c == '"' || c == '\'':
		s.str(c)
	case c == '/' && s.peek(1) == '/':
		s.comment()
	case c == '/' && s.peek(1) == '*':
		s.pos += 2
		if n := strings.Index(s.src[s.pos:], "*/"); n >= 0 {
			s.pos += n + 2
		} else {
			s.pos = len(s.src)
		}
		s.report(start, start+2, syntax.CodeForeign, "there are no comments of the form /* … */",
			"begin each line of the comment with //")
	case c < utf8.RuneSelf:
		s.operator()
	default:
		s.foreign()
	}
}

func (s *scanner) comment() {
	start := s.pos
	n := strings.IndexByte(s.src[s.pos:], '\n')
	if n < 0 {
		n = len(s.src) - s.pos
	}
	text := strings.TrimRight(s.src[start:start+n], " \t\r")
	for s.pos < start+len(text) {
		s.char("a comment")
	}
	s.comments = append(s.comments, syntax.Comment{Span: s.file.Span(start, start+len(text)), Text: text})
	s.pos = start + n
}

// char scans one character of a string or a comment. It reports characters that are invisible or
// misleading.
func (s *scanner) char(where string) {
	c := s.src[s.pos]
	if c >= 0x20 && c < 0x7f || c == '\t' || c == '\n' || c == '\r' && s.peek(1) == '\n' {
		s.pos++
		return
	}
	r, size := utf8.DecodeRuneInString(s.src[s.pos:])
	start := s.pos
	s.pos += size
	if r == utf8.RuneError && size == 1 {
		for s.pos < len(s.src) && s.src[s.pos] >= utf8.RuneSelf && !utf8.FullRuneInString(s.src[s.pos:]) {
			s.pos++
		}
		s.report(start, s.pos, syntax.CodeCharacter, "this is not UTF-8", "save the file as UTF-8")
	} else if isHidden(r) {
		help := "remove it"
		if where == "a string" {
			help = "in a string, write it as " + escapeRune(r)
		}
		s.report(start, s.pos, syntax.CodeCharacter,
			"the invisible character "+codePoint(r)+" cannot stand in "+where, help)
	}
}

// isHidden reports whether a character is a control character, or changes the order or the lines of
// displayed text.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

func (s *scanner) number() {
	start := s.pos
	s.digits()
	kind := syntax.Int
	// After a dot a number is an element index: x.0.1 is (x.0).1.
	element := len(s.tokens) > 0 && s.tokens[len(s.tokens)-1].Kind == syntax.Dot
	if !element && s.peek(0) == '.' && isDigit(s.peek(1)) {
		kind = syntax.Float
		s.pos++
		s.digits()
	}
	if isLetter(s.peek(0)) {
		s.word()
		s.report(start, s.pos, syntax.CodeNumber,
			"a number consists of digits, with a point among them if it is a Float", "")
		kind = syntax.Invalid
	}
	s.emit(kind, start)
}

func (s *scanner) digits() {
	for isDigit(s.peek(0)) {
		s.pos++
	}
}

// word scans letters and digits.
func (s *scanner) word() {
	for isLetter(s.peek(0)) || isDigit(s.peek(0)) {
		s.pos++
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// operator scans the longest operator or punctuation mark.
func (s *scanner) operator() {
	kind := syntax.Operator(s.src[s.pos:])
	if n := len(s.braces); n > 0 {
		switch kind {
		case syntax.LBrace:
			s.braces[n-1]++
		case syntax.RBrace:
			if s.braces[n-1] == 0 {
				s.braces = s.braces[:n-1]
				s.text('"', syntax.TemplateMiddle, syntax.TemplateTail)
				return
			}
			s.braces[n-1]--
		}
	}
	if kind == syntax.Invalid {
		s.foreign()
		return
	}
	start := s.pos
	s.pos += len(kind.String())
	s.emit(kind, start)
}

// foreign reports a run of characters that start no token.
func (s *scanner) foreign() {
	start := s.pos
	r, _ := utf8.DecodeRuneInString(s.src[s.pos:])
	before := len(s.diagnostics)
	s.char("a program")
	if len(s.diagnostics) > before || len(s.diagnostics) == maxDiagnostics {
		s.emit(syntax.Invalid, start)
		return
	}
	message, help := "the character "+string(r)+" means nothing here", ""
	switch {
	case r == '&':
		help = "`and` is written &&"
	case strings.ContainsRune("“”„‘’`", r):
		help = "strings are written with straight quotes, \"…\" or '…'"
	case r == '?':
		help = "an error is passed on with `try` before the call"
	case unicode.IsSpace(r):
		message, help = "the blank "+codePoint(r)+" cannot stand in a program", "replace it by an ordinary blank"
	case unicode.IsLetter(r):
		for s.pos < len(s.src) {
			n, size := utf8.DecodeRuneInString(s.src[s.pos:])
			if !unicode.IsLetter(n) && !unicode.IsDigit(n) && n != '_' {
				break
			}
			s.pos += size
		}
		message, help = "a name consists of the letters a to z and A to Z, digits and _", ""
	}
	s.report(start, s.pos, syntax.CodeCharacter, message, help)
	s.emit(syntax.Invalid, start)
}
