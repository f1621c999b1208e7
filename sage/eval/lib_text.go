package eval

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// native is a function of the library. Its arguments stay with the caller, so it has to mark parts
// that it returns as shared.
type native func(m *machine, a []Value) Value

// newText charges for a new text. A native whose result can be much larger than its arguments
// charges before it makes the result.
func (m *machine) newText(s string) Value {
	m.charge(len(s) + 16)
	m.spend(len(s) >> 6)
	return textValue(s)
}

// expanded maps letters to their upper case if that has several letters in every language
// (Unicode, SpecialCasing.txt). Greek letters with an iota subscript are left out.
var expanded = strings.NewReplacer(
	"ß", "SS", "ŉ", "ʼN", "ǰ", "J̌", "ΐ", "Ϊ́", "ΰ", "Ϋ́", "և", "ԵՒ", "ẖ", "H̱", "ẗ", "T̈", "ẘ", "W̊", "ẙ", "Y̊",
	"ẚ", "Aʾ", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL", "ﬃ", "FFI", "ﬄ", "FFL", "ﬅ", "ST", "ﬆ", "ST",
)

func upper(s string) string { return strings.ToUpper(expanded.Replace(s)) }

func textNatives() map[string]native {
	text := func(f func(string) string) native {
		return func(m *machine, a []Value) Value { return m.newText(f(a[0].text())) }
	}
	is := func(f func(a, b string) bool) native {
		return func(_ *machine, a []Value) Value { return boolValue(f(a[0].text(), a[1].text())) }
	}
	return map[string]native{
		"str":          str,
		"int_to_str":   str,
		"float_to_str": str,
		"bool_to_str":  str,
		"trim":         text(strings.TrimSpace),
		"trim_start":   text(func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }),
		"trim_end":     text(func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }),
		"to_upper":     text(upper),
		"to_lower":     text(strings.ToLower),
		"starts_with":  is(strings.HasPrefix),
		"ends_with":    is(strings.HasSuffix),
		"str_contains": contains,
		"str_len":      func(_ *machine, a []Value) Value { return intValue(length(a[0])) },
		"join":         join,
		"lines":        func(m *machine, a []Value) Value { return m.textList(splitLines(a[0].text())) },
		"split": func(m *machine, a []Value) Value {
			return m.textList(strings.Split(a[0].text(), a[1].text()))
		},
		"chars": chars,
		"replace": func(m *machine, a []Value) Value {
			s, old, with := a[0].text(), a[1].text(), a[2].text()
			m.charge(len(s) + strings.Count(s, old)*(len(with)-len(old)))
			return textValue(strings.ReplaceAll(s, old, with))
		},
		"replace_first": func(m *machine, a []Value) Value {
			return m.newText(strings.Replace(a[0].text(), a[1].text(), a[2].text(), 1))
		},
		"chr": func(_ *machine, a []Value) Value {
			if n := a[0].n; n < 0 || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
				return textValue("")
			}
			return textValue(string(rune(a[0].n)))
		},
		"str_slice":     slice,
		"index_of":      indexOf,
		"str_index_of":  indexOf,
		"repeat":        repeat,
		"str_repeat":    repeat,
		"str_pad_start": func(m *machine, a []Value) Value { return m.newText(m.padding(a) + a[0].text()) },
		"str_pad_end":   func(m *machine, a []Value) Value { return m.newText(a[0].text() + m.padding(a)) },
		"str_truncate":  func(m *machine, a []Value) Value { return m.newText(truncated(a[0].text(), a[1].n)) },
		"parse_int": func(_ *machine, a []Value) Value {
			n, err := strconv.ParseInt(strings.TrimSpace(a[0].text()), 10, 64)
			return parseResult(intValue(n), err, a[0].text(), "a whole number")
		},
		"parse_float": func(_ *machine, a []Value) Value {
			s := strings.TrimSpace(a[0].text())
			f, err := strconv.ParseFloat(s, 64)
			if strings.ContainsAny(s, "_xXpP") {
				err = strconv.ErrSyntax
			}
			return parseResult(floatValue(f), err, a[0].text(), "a number")
		},
		"parse_bool": func(_ *machine, a []Value) Value {
			s := strings.TrimSpace(a[0].text())
			var err error
			if s != "true" && s != "false" {
				err = strconv.ErrSyntax
			}
			return parseResult(boolValue(s == "true"), err, a[0].text(), "true or false")
		},
	}
}

func chars(m *machine, a []Value) Value { return m.textList(strings.Split(a[0].text(), "")) }

func str(m *machine, a []Value) Value { return m.newText(show(a[0])) }

func indexOf(_ *machine, a []Value) Value {
	before, _, found := strings.Cut(a[0].text(), a[1].text())
	return option(intValue(int64(utf8.RuneCountInString(before))), found)
}

func repeat(m *machine, a []Value) Value {
	s, n := a[0].text(), max(a[1].n, 0)
	if len(s) > 0 && n > m.limits.Memory/int64(len(s)) {
		m.throwLimit("memory", m.limits.Memory)
	}
	m.charge(len(s) * int(n))
	return textValue(strings.Repeat(s, int(n)))
}

// parseResult returns the Result of a function that parses text.
func parseResult(v Value, err error, text, what string) Value {
	if err == nil {
		return okResult(v)
	}
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return errResult(textValue(strconv.QuoteToGraphic(strings.ToValidUTF8(text, "\uFFFD")) + " is not " + what))
}

func join(m *machine, a []Value) Value {
	elems, sep := a[0].elems(), a[1].text()
	size := 0
	texts := make([]string, len(elems))
	for i, e := range elems {
		texts[i] = e.text()
		size += len(texts[i]) + len(sep)
	}
	m.charge(size)
	m.spend(len(elems) + size>>6)
	return textValue(strings.Join(texts, sep))
}

// textList returns a list of texts that share memory with another text.
func (m *machine) textList(parts []string) Value {
	m.charge(16 * len(parts))
	m.spend(len(parts))
	elems := make([]Value, len(parts))
	for i, p := range parts {
		elems[i] = textValue(p)
	}
	return m.list(elems)
}

// splitLines returns the lines without their line ends. The last line may lack one.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return lines
}

// characters returns the characters from one index up to, but not including, another. Both are
// clamped.
func characters(s string, from, to int64) string {
	from = max(from, 0)
	if to <= from {
		return ""
	}
	begin, end, n := len(s), len(s), int64(0)
	for at := range s {
		if n == from {
			begin = at
		}
		if n == to {
			end = at
			break
		}
		n++
	}
	return s[begin:end]
}

// truncated cuts a text to at most width characters, with dots where it was cut.
func truncated(s string, width int64) string {
	if int64(utf8.RuneCountInString(s)) <= width {
		return s
	}
	return characters(s, 0, width-3) + characters("...", 0, width)
}

// padding returns the characters that a text lacks to a width.
func (m *machine) padding(a []Value) string {
	s, width, pad := a[0].text(), a[1].n, a[2].text()
	missing := width - int64(utf8.RuneCountInString(s))
	if missing <= 0 || pad == "" {
		return ""
	}
	if missing > m.limits.Memory {
		m.throwLimit("memory", m.limits.Memory)
	}
	m.charge(int(missing))
	times := missing/int64(utf8.RuneCountInString(pad)) + 1
	return characters(strings.Repeat(pad, int(times)), 0, missing)
}
