// Package candidate finds the JSON values in the text of a language model: the whole text, fenced
// code blocks, and objects and arrays in prose. It does not choose among them.
//
// Each byte is read a fixed number of times, whatever the text.
package candidate

import (
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf8"
)

// Part is a section of a text: prose, or the content of a fenced code block.
type Part struct {
	Start, End int    // byte offsets in the text, without white space around the section
	Fenced     bool   // it is the content of a code block
	Language   string // info string of the code block in lower case, such as "json"
	JSON       bool   // the section as a whole is one valid JSON value of any type

	text string
}

// Parts returns the sections of a text in their order, without empty ones. A text that is one JSON
// value is one section. Ignored are a byte order mark, thoughts at the start (<think>...</think>
// or <thinking>...</thinking>), and code blocks in languages other than JSON whose content is not
// JSON. An unterminated code block extends to the end of the text.
func Parts(text string) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		all := Part{End: len(text), text: text}.trim()
		for _, tag := range []string{"think>", "thinking>"} {
			rest, ok := strings.CutPrefix(text[all.Start:all.End], "<"+tag)
			if i := strings.Index(rest, "</"+tag); ok && i >= 0 {
				all.Start += len("<"+tag) + i + len("</"+tag)
				all = all.trim()
			}
		}
		if all.Start == all.End {
			return
		}
		if all.isJSON(); all.JSON {
			yield(all)
			return
		}
		all.split(func(p Part) bool {
			p = p.trim()
			if p.Fenced {
				p.isJSON()
			}
			other := p.Language != "" && !strings.HasPrefix(p.Language, "json") && !p.JSON
			return p.Start == p.End || other || yield(p)
		})
	}
}

func (p *Part) isJSON() { p.JSON = json.Valid([]byte(p.text[p.Start:p.End])) }

// trim removes white space and byte order marks around a section.
func (p Part) trim() Part {
	const space = " \t\r\n\v\f\u0085\u00a0\ufeff"
	s := p.text[p.Start:p.End]
	p.End -= len(s) - len(strings.TrimRight(s, space))
	p.Start = min(p.End, p.Start+len(s)-len(strings.TrimLeft(s, space)))
	return p
}

// split passes on the prose and the code blocks of a section, as in CommonMark, until yield
// returns false.
func (p Part) split(yield func(Part) bool) {
	text := p.text
	prose := p.Start
	for at := p.Start; at < p.End; {
		next := lineEnd(text, at, p.End)
		mark, language := fence(text[at:next])
		if mark == "" || strings.ContainsAny(language, "{[") { // the value is on the line of the fence
			at = next
			continue
		}
		if !yield(Part{Start: prose, End: at, text: text}) {
			return
		}
		body := Part{Start: next, End: p.End, Fenced: true, Language: language, text: text}
		for at = next; at < p.End; at = next {
			next = lineEnd(text, at, p.End)
			if m, info := fence(text[at:next]); info == "" && strings.HasPrefix(m, mark) {
				body.End, at = at, next
				break
			}
		}
		if !yield(body) {
			return
		}
		prose = at
	}
	yield(Part{Start: prose, End: p.End, text: text})
}

func lineEnd(text string, from, end int) int {
	if i := strings.IndexByte(text[from:end], '\n'); i >= 0 {
		return from + i + 1
	}
	return end
}

// fence returns the fence of a line that opens or closes a code block, and the info string in
// lower case. Both are "" for other lines.
func fence(line string) (mark, info string) {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return "", ""
	}
	info = strings.TrimLeft(rest, rest[:1])
	mark = rest[:len(rest)-len(info)]
	if len(mark) < 3 || mark[0] == '`' && strings.Contains(info, "`") {
		return "", ""
	}
	return mark, strings.ToLower(strings.TrimSpace(info))
}

// Position returns the line and column of a byte of a text. Both count from 1, and columns count
// characters.
func Position(text string, at int) (line, column int) {
	before := text[:at]
	return strings.Count(before, "\n") + 1,
		utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}
