package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Extract finds the JSON value in the text of a model: the whole text, or the only value in it,
// which is a fenced code block or an object or array in the prose. It is an error if there is
// none, more than one or a broken one, as choosing would be a guess. Errors give the position
// (line:column). Thoughts at the start (<think>...</think>) and code blocks in other languages are
// ignored.
func Extract(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\ufeff"))
	if rest, ok := strings.CutPrefix(text, "<think>"); ok {
		if _, after, ok := strings.Cut(rest, "</think>"); ok {
			text = strings.TrimSpace(after)
		}
	}
	if text == "" {
		return nil, errors.New("it is empty")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	f := finder{text: text}
	f.blocks()
	switch {
	case f.broken != nil:
		return nil, f.broken
	case len(f.found) == 0:
		return nil, errors.New("it contains no JSON value")
	case len(f.found) > 1:
		return nil, fmt.Errorf("it contains more than one JSON value: %s and %s", f.describe(f.found[0]),
			f.describe(f.found[1]))
	}
	return json.RawMessage(text[f.found[0].start:f.found[0].end]), nil
}

type finder struct {
	text   string
	found  []part // at most two, which is one too many
	broken error  // the first part that looks like a value but is not valid
}

// part is a range of the text.
type part struct{ start, end int }

func (f *finder) done() bool { return f.broken != nil || len(f.found) > 1 }

// blocks searches fenced code blocks, as in CommonMark, and the prose between them.
func (f *finder) blocks() {
	prose := 0
	for at := 0; at < len(f.text) && !f.done(); {
		next := lineEnd(f.text, at)
		mark, language := fence(f.text[at:next])
		if mark == "" {
			at = next
			continue
		}
		f.prose(part{prose, at})
		body := part{next, len(f.text)}
		for at = next; at < len(f.text); at = next {
			next = lineEnd(f.text, at)
			if m, info := fence(f.text[at:next]); info == "" && strings.HasPrefix(m, mark) {
				body.end, at = at, next
				break
			}
		}
		if !f.done() {
			f.block(body, language)
		}
		prose = at
	}
	f.prose(part{prose, len(f.text)})
}

func lineEnd(text string, from int) int {
	if i := strings.IndexByte(text[from:], '\n'); i >= 0 {
		return from + i + 1
	}
	return len(text)
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

// block searches the content of a code block.
func (f *finder) block(p part, language string) {
	p = f.trim(p)
	if p.start == p.end {
		return
	}
	err := valid(f.text[p.start:p.end])
	switch {
	case err == nil:
		f.found = append(f.found, p)
	case strings.HasPrefix(language, "json"):
		f.broken = fmt.Errorf("the code block at %s is not valid JSON: %w", f.place(p.start), err)
	case language == "":
		f.prose(p)
	}
}

func (f *finder) trim(p part) part {
	s := f.text[p.start:p.end]
	p.start += len(s) - len(strings.TrimLeft(s, " \t\r\n"))
	p.end = max(p.start, p.end-(len(s)-len(strings.TrimRight(s, " \t\r\n"))))
	return p
}

// prose searches text for objects and arrays. Brackets without quotes or nested brackets, such as
// [1, p. 7] or {name}, are prose unless they are valid JSON. All other brackets that are not valid
// are a broken value, whose parts must not be taken for the answer. Each byte is read a fixed
// number of times for any text.
func (f *finder) prose(p part) {
	for at := p.start; !f.done(); {
		i := strings.IndexAny(f.text[at:p.end], "{[")
		if i < 0 {
			return
		}
		at += i
		closing := byte(']')
		if f.text[at] == '{' {
			closing = '}'
		}
		j := strings.IndexAny(f.text[at+1:p.end], `{}[]"`)
		if j < 0 {
			return
		}
		if end := at + 1 + j + 1; f.text[end-1] == closing {
			if json.Valid([]byte(f.text[at:end])) {
				f.found = append(f.found, part{at, end})
			}
			at = end
			continue
		}
		d := json.NewDecoder(strings.NewReader(f.text[at:p.end]))
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			f.broken = fmt.Errorf("the value at %s, which starts with %.40q, is not valid JSON: %w", f.place(at),
				cut(f.text[at:p.end], 40), err)
			return
		}
		f.found = append(f.found, part{at, at + int(d.InputOffset())})
		at += int(d.InputOffset())
	}
}

// valid returns the error in a text that is not a JSON value.
func valid(s string) error {
	var raw json.RawMessage
	return json.Unmarshal([]byte(s), &raw)
}

// place returns the position of a byte as line:column.
func (f *finder) place(at int) string {
	before := f.text[:at]
	return fmt.Sprintf("%d:%d", strings.Count(before, "\n")+1,
		utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1)
}

func (f *finder) describe(p part) string {
	return fmt.Sprintf("%q at %s", cut(f.text[p.start:p.end], 40), f.place(p.start))
}
