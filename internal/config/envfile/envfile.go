// Package envfile reads files of environment variables.
package envfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Read reads a file of environment variables. The error is a *toml.Error with its place. It
// never contains a value, as values may be secrets.
//
// The format is the common subset of Docker Compose and systemd: lines of KEY=VALUE, with
// comments, quotes and an optional leading export. Nothing is expanded or executed.
func Read(path string) (map[string]string, error) {
	data, _, e := toml.ReadFile(path, toml.Advice{
		Missing: "create it, or remove it from env_file", Large: "it is for variables; put data into another file",
	})
	if e != nil {
		if e.Err != nil && e.Line == 0 && strings.HasPrefix(e.Message, "no such file") {
			e.Message = "no such file, expected variables as KEY=VALUE"
		}
		return nil, e
	}
	vars, e := parse(path, data)
	if e != nil {
		return nil, e
	}
	return vars, nil
}

// parse reads the content of a file of environment variables.
func parse(name string, data []byte) (map[string]string, *toml.Error) {
	s := toml.NewSource(name, data)
	if e := s.CheckText(); e != nil {
		return nil, e
	}
	p := parser{Source: s, vars: make(map[string]string)}
	for p.at < len(s.Data) {
		if e := p.line(); e != nil {
			return nil, e
		}
	}
	return p.vars, nil
}

type parser struct {
	*toml.Source
	at   int
	vars map[string]string
}

const expected = "expected KEY=VALUE"

func (p *parser) fail(at int, hint, format string, args ...any) *toml.Error {
	return p.ErrorAt(at, "", hint, fmt.Sprintf(format, args...))
}

// line reads one line, or several if a quoted value spans them.
func (p *parser) line() *toml.Error {
	p.blanks()
	if p.end() {
		p.nextLine()
		return nil
	}
	if rest, ok := bytes.CutPrefix(p.Data[p.at:], []byte("export")); ok && len(rest) > 0 && isBlank(rest[0]) {
		p.at += len("export")
		p.blanks()
	}
	begin := p.at
	for isNameByte(p.peek(), p.at == begin) {
		p.at++
	}
	key := string(p.Data[begin:p.at])
	p.blanks()
	switch {
	case p.peek() == '=' && key != "":
		p.at++
	case p.peek() == '=':
		return p.fail(p.at, "", "a value without a name, %s", expected)
	case p.end() && key != "":
		return p.fail(begin, "write "+key+"= for an empty value",
			"the variable %s without a =, %s", spec.Quote(key), expected)
	default:
		r, _ := utf8.DecodeRune(p.Data[p.at:])
		return p.fail(p.at, "names have letters, digits, _, - and ., and no digit in front",
			"%q cannot be here, %s", r, expected)
	}
	if strings.HasPrefix(key, "COPPICE_") {
		return p.fail(begin, "", "the variable %s is set by Coppice itself, expected another name", spec.Quote(key))
	}
	p.blanks()
	value, e := p.value()
	if e != nil {
		return e
	}
	if len(key)+1+len(value) > spec.MaxVariable {
		return p.fail(begin, "put it into a file", "the variable %s has %d bytes, expected at most %d",
			spec.Quote(key), len(value), spec.MaxVariable-len(key)-1)
	}
	p.vars[key] = value
	return nil
}

func (p *parser) value() (string, *toml.Error) {
	if c := p.peek(); c == '"' || c == '\'' {
		return p.quoted()
	}
	line, _, _ := bytes.Cut(p.Data[p.at:], []byte("\n"))
	for i := range line { // a blank precedes a comment
		if line[i] == '#' && (i == 0 || isBlank(line[i-1])) {
			line = line[:i]
			break
		}
	}
	p.nextLine()
	return string(bytes.TrimRight(line, " \t\r")), nil
}

// quoted reads a quoted value. Double quotes allow escapes.
func (p *parser) quoted() (string, *toml.Error) {
	open, quote := p.at, p.Data[p.at]
	var b strings.Builder
	for p.at++; ; p.at++ {
		c := p.peek()
		if c == 0 {
			return "", p.fail(open, "", "a value in %c quotes does not end, expected the second one", quote)
		}
		if c == quote {
			break
		}
		if c == '\r' && p.at+1 < len(p.Data) && p.Data[p.at+1] == '\n' {
			continue // line ends become \n, as everywhere else
		}
		if c == '\\' && quote == '"' && p.at+1 < len(p.Data) {
			if i := strings.IndexByte(`nrt"\$`, p.Data[p.at+1]); i >= 0 {
				b.WriteByte("\n\r\t\"\\$"[i])
				p.at++
				continue
			}
		}
		b.WriteByte(c)
	}
	p.at++
	behind := p.at
	p.blanks()
	if !p.end() || p.peek() == '#' && p.at == behind {
		return "", p.fail(p.at, "put all of the value into the quotes",
			"text behind a value in quotes, expected the end of the line")
	}
	p.nextLine()
	return b.String(), nil
}

func (p *parser) blanks() {
	for isBlank(p.peek()) {
		p.at++
	}
}

// peek returns the next byte; 0 at the end of the file, which contains no zero byte.
func (p *parser) peek() byte {
	if p.at < len(p.Data) {
		return p.Data[p.at]
	}
	return 0
}

// end reports whether the rest of the line is empty or a comment.
func (p *parser) end() bool {
	rest := bytes.TrimPrefix(p.Data[p.at:], []byte("\r"))
	return len(rest) == 0 || rest[0] == '\n' || p.peek() == '#'
}

func (p *parser) nextLine() {
	if i := bytes.IndexByte(p.Data[p.at:], '\n'); i >= 0 {
		p.at += i + 1
	} else {
		p.at = len(p.Data)
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func isNameByte(c byte, first bool) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || !first && (c >= '0' && c <= '9' || c == '-' || c == '.')
}
