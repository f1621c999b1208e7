package main

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// term is an Erlang term of a kind that occurs in scripts and traces. Its String is the output of
// ~w in io_lib.
type term interface {
	String() string
}

type (
	atom    string
	integer struct{ *big.Int }
	float   float64
	tuple   []term
	// list is proper when its tail is nil. An Erlang string is a list of characters.
	list struct {
		elems []term
		tail  term
	}
)

func number(n int) integer { return integer{big.NewInt(int64(n))} }

// chars returns text as an Erlang string.
func chars(text string) list {
	var l list
	for _, c := range text {
		l.elems = append(l.elems, number(int(c)))
	}
	return l
}

// failed returns {error, Reason}.
func failed(reason ...term) tuple {
	if len(reason) == 1 {
		return tuple{atom("error"), reason[0]}
	}
	return tuple{atom("error"), tuple(reason)}
}

func isAtom(t term, name string) bool {
	a, ok := t.(atom)
	return ok && string(a) == name
}

func (t tuple) String() string { return "{" + join(t) + "}" }

func (l list) String() string {
	if l.tail == nil {
		return "[" + join(l.elems) + "]"
	}
	return "[" + join(l.elems) + "|" + l.tail.String() + "]"
}

func join(terms []term) string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = t.String()
	}
	return strings.Join(texts, ",")
}

// reserved lists the words that need quotes as atoms.
const reserved = " after and andalso band begin bnot bor bsl bsr bxor case catch cond div end fun if let not of or " +
	"orelse receive rem try when xor "

func isReserved(name string) bool { return strings.Contains(reserved, " "+name+" ") }

func (a atom) String() string {
	plain := a != "" && !isReserved(string(a))
	for i, c := range string(a) {
		plain = plain && (isLower(c) || i > 0 && isNameChar(c))
	}
	if plain {
		return string(a)
	}
	var b strings.Builder
	b.WriteByte('\'')
	for _, c := range string(a) {
		i := strings.IndexRune(escaped, c)
		switch {
		case i >= 0:
			b.WriteByte('\\')
			b.WriteByte(escapes[i])
		case c < ' ' || c >= 0x7f && c < 0xa0:
			fmt.Fprintf(&b, "\\%03o", c)
		case c > 0xff:
			fmt.Fprintf(&b, "\\x{%X}", c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// Characters and the letters that represent them after a backslash.
const (
	escaped = "'\\\n\t\r\v\b\f\x1b\x7f"
	escapes = "'\\ntrvbfed"
)

func isLower(c rune) bool { return c >= 'a' && c <= 'z' || c >= 0xdf && c <= 0xff && c != 0xf7 }
func isUpper(c rune) bool { return c >= 'A' && c <= 'Z' || c >= 0xc0 && c <= 0xde && c != 0xd7 }
func isDigit(c rune) bool { return c >= '0' && c <= '9' }
func isNameChar(c rune) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || c == '_' || c == '@'
}

// String uses the shortest digits that read back as the same number. It uses an exponent if that
// is shorter, or if the number is too large to represent each integer.
func (f float) String() string {
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(float64(f), 'e', -1, 64), "e")
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	digits := strings.Replace(mantissa, ".", "", 1)
	n, _ := strconv.Atoi(exp)
	place := n + 1
	if digits == "0" {
		return sign + "0.0"
	}
	withExp := digits[:1] + "." + digits[1:]
	if len(digits) == 1 {
		withExp += "0"
	}
	withExp += "e" + strconv.Itoa(n)
	var plain string
	switch {
	case place <= 0:
		plain = "0." + strings.Repeat("0", -place) + digits
	case place >= len(digits):
		plain = digits + strings.Repeat("0", place-len(digits)) + ".0"
	default:
		return sign + digits[:place] + "." + digits[place:]
	}
	if len(plain) <= len(withExp) && math.Abs(float64(f)) < 1<<53 {
		return sign + plain
	}
	return sign + withExp
}

// maxDepth bounds nested lists and tuples, so that no input can exhaust the stack.
const maxDepth = 1000

// scanner reads one term: what erl_scan and erl_parse:parse_term accept, except variables, maps,
// binaries and funs, which scripts do not use.
type scanner struct {
	rest  []rune
	depth int
}

func parseTerm(text string) (term, error) {
	s := scanner{rest: []rune(text)}
	t, err := s.term()
	if err == nil && len(s.rest) > 0 {
		err = s.unexpected()
	}
	if err != nil {
		return nil, fmt.Errorf("term %q: %w", text, err)
	}
	return t, nil
}

func (s *scanner) unexpected() error {
	if len(s.rest) == 0 {
		return fmt.Errorf("ends too early")
	}
	return fmt.Errorf("unexpected %q", string(s.rest[:min(len(s.rest), 20)]))
}

func (s *scanner) peek() rune {
	if len(s.rest) == 0 {
		return -1
	}
	return s.rest[0]
}

func (s *scanner) accept(c rune) bool {
	if s.peek() != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) term() (term, error) {
	if s.depth++; s.depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	defer func() { s.depth-- }()
	switch c := s.peek(); {
	case c == '{':
		s.accept('{')
		elems, err := s.terms('}')
		return tuple(elems), err
	case c == '[':
		s.accept('[')
		return s.list()
	case c == '\'':
		text, err := s.quoted('\'')
		return atom(text), err
	case c == '"':
		text, err := s.quoted('"')
		return chars(text), err
	case isLower(c):
		name := s.while(isNameChar)
		if isReserved(name) {
			return nil, fmt.Errorf("%s is a reserved word", name)
		}
		return atom(name), nil
	case c == '-' || c == '+':
		s.accept(c)
		if !isDigit(s.peek()) && s.peek() != '$' {
			return nil, s.unexpected()
		}
		t, err := s.number()
		if n, ok := t.(integer); ok && c == '-' {
			n.Neg(n.Int)
		} else if f, ok := t.(float); ok && c == '-' {
			t = -f
		}
		return t, err
	case isDigit(c) || c == '$':
		return s.number()
	}
	return nil, s.unexpected()
}

// terms reads the rest of a tuple or list.
func (s *scanner) terms(end rune) ([]term, error) {
	var elems []term
	if s.accept(end) {
		return elems, nil
	}
	for {
		t, err := s.term()
		if err != nil {
			return nil, err
		}
		elems = append(elems, t)
		if s.accept(end) || end == ']' && s.peek() == '|' {
			return elems, nil
		}
		if !s.accept(',') {
			return nil, s.unexpected()
		}
	}
}

func (s *scanner) list() (term, error) {
	elems, err := s.terms(']')
	if err != nil || !s.accept('|') {
		return list{elems: elems}, err
	}
	tail, err := s.term()
	if err != nil {
		return nil, err
	}
	if !s.accept(']') {
		return nil, s.unexpected()
	}
	if l, ok := tail.(list); ok {
		return list{append(elems, l.elems...), l.tail}, nil
	}
	return list{elems, tail}, nil
}

func (s *scanner) while(ok func(rune) bool) string {
	n := 0
	for n < len(s.rest) && ok(s.rest[n]) {
		n++
	}
	text := string(s.rest[:n])
	s.rest = s.rest[n:]
	return text
}

// digits reads digits, with single underscores between them.
func (s *scanner) digits(ok func(rune) bool) string {
	text := s.while(ok)
	for text != "" && len(s.rest) > 1 && s.rest[0] == '_' && ok(s.rest[1]) {
		s.rest = s.rest[1:]
		text += s.while(ok)
	}
	return text
}

// number reads $c, 12, 1_000, 16#ff, 1.5 and 1.5e-3.
func (s *scanner) number() (term, error) {
	if s.accept('$') {
		if s.peek() == '\\' {
			c, err := s.escape()
			return number(int(c)), err
		}
		if len(s.rest) == 0 {
			return nil, s.unexpected()
		}
		c := s.rest[0]
		s.rest = s.rest[1:]
		return number(int(c)), nil
	}
	whole := s.digits(isDigit)
	switch {
	case s.accept('#'):
		base, err := strconv.Atoi(whole)
		if err != nil || base < 2 || base > 36 {
			return nil, fmt.Errorf("base %s is not one of 2 to 36", whole)
		}
		digits := s.digits(func(c rune) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' })
		n, ok := new(big.Int).SetString(digits, base)
		if !ok {
			return nil, fmt.Errorf("%q is no number to base %d", digits, base)
		}
		return integer{n}, nil
	case len(s.rest) > 1 && s.rest[0] == '.' && isDigit(s.rest[1]):
		s.accept('.')
		text := whole + "." + s.digits(isDigit)
		if s.peek() == 'e' || s.peek() == 'E' {
			s.rest = s.rest[1:]
			text += "e"
			if c := s.peek(); c == '-' || c == '+' {
				s.accept(c)
				text += string(c)
			}
			text += s.digits(isDigit)
		}
		f, err := strconv.ParseFloat(text, 64)
		return float(f), err
	}
	n, ok := new(big.Int).SetString(whole, 10)
	if !ok {
		return nil, s.unexpected()
	}
	return integer{n}, nil
}

// quoted reads an atom or a string in quotes.
func (s *scanner) quoted(quote rune) (string, error) {
	s.accept(quote)
	var b strings.Builder
	for !s.accept(quote) {
		switch {
		case len(s.rest) == 0:
			return "", fmt.Errorf("%c is missing", quote)
		case s.rest[0] == '\\':
			c, err := s.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(c)
		default:
			b.WriteRune(s.rest[0])
			s.rest = s.rest[1:]
		}
	}
	return b.String(), nil
}

// escape reads an escape sequence.
func (s *scanner) escape() (rune, error) {
	s.accept('\\')
	if len(s.rest) == 0 {
		return 0, s.unexpected()
	}
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch {
	case c >= '0' && c <= '7':
		v := c - '0'
		for i := 0; i < 2 && s.peek() >= '0' && s.peek() <= '7'; i++ {
			v = v*8 + s.rest[0] - '0'
			s.rest = s.rest[1:]
		}
		return v, nil
	case c == 'x':
		braces := s.accept('{')
		n := 0
		hex := s.while(func(rune) bool { n++; return braces && s.rest[n-1] != '}' || !braces && n <= 2 })
		v, err := strconv.ParseUint(hex, 16, 21)
		if err != nil || braces && !s.accept('}') {
			return 0, fmt.Errorf("\\x%s is no character", hex)
		}
		return rune(v), nil
	case c == '^' && len(s.rest) > 0:
		c := s.rest[0]
		s.rest = s.rest[1:]
		return c & 31, nil
	case c == 's':
		return ' ', nil
	}
	if i := strings.IndexRune(escapes, c); i >= 0 {
		return rune(escaped[i]), nil
	}
	return c, nil
}
