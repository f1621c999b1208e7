package eval

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"
)

// natives returns all functions of the library by name.
var natives = sync.OnceValue(func() map[string]native {
	all := map[string]native{}
	for _, part := range []map[string]native{
		textNatives(), listNatives(), moreNatives(), mathNatives(), jsonNatives(), ioNatives(), fileNatives(),
		testNatives(),
	} {
		maps.Copy(all, part)
	}
	return all
})

func ioNatives() map[string]native {
	return map[string]native{
		"print": func(m *machine, a []Value) Value {
			m.in.o.Output.Print(m.path(), false, show(a[0]))
			return unit
		},
		"print_err": func(m *machine, a []Value) Value {
			m.in.o.Output.Print(m.path(), true, show(a[0]))
			return unit
		},
		"read_line": func(m *machine, _ []Value) Value {
			line, err := m.read()
			if err != nil && line == "" {
				m.throwError(Runtime, inputError(err))
			}
			return m.newText(strings.ToValidUTF8(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), "\uFFFD"))
		},
		"read_all": func(m *machine, _ []Value) Value {
			var all strings.Builder
			for {
				line, err := m.read()
				m.charge(len(line))
				all.WriteString(line)
				if errors.Is(err, io.EOF) {
					return m.newText(strings.ToValidUTF8(all.String(), "\uFFFD"))
				}
				if err != nil {
					m.throwError(Runtime, inputError(err))
				}
			}
		},
		"sleep_ms": func(m *machine, a []Value) Value {
			m.sleep(milliseconds(a[0].n))
			return unit
		},
		"now_ms": func(*machine, []Value) Value { return intValue(time.Now().UnixMilli()) },
		"now_s":  func(*machine, []Value) Value { return intValue(time.Now().Unix()) },
		"format_timestamp": func(m *machine, a []Value) Value {
			layout, err := timeLayout(a[1].text())
			if err != nil {
				m.throwError(Runtime, fmt.Errorf("format_timestamp: %w", err))
			}
			return m.newText(time.UnixMilli(a[0].n).UTC().Format(layout))
		},
		"parse_timestamp": func(m *machine, a []Value) Value {
			layout, err := timeLayout(a[1].text())
			if err == nil {
				var t time.Time
				if t, err = time.Parse(layout, a[0].text()); err == nil {
					return intValue(t.UnixMilli())
				}
				err = fmt.Errorf("%q does not have the form %s", truncated(a[0].text(), 60), a[1].text())
			}
			m.throwError(Runtime, fmt.Errorf("parse_timestamp: %w", err))
			return unit
		},
		"env": func(m *machine, a []Value) Value {
			v, found := m.in.o.Lookup(a[0].text())
			return option(textValue(v), found)
		},
		"env_or": func(m *machine, a []Value) Value {
			if v, found := m.in.o.Lookup(a[0].text()); found {
				return textValue(v)
			}
			return a[1]
		},
	}
}

// input is the reader behind read_line and read_all. A read cannot be interrupted: if the waiting
// agent is stopped, the next reader gets the result.
type input struct {
	token   chan struct{} // holds one token, which the reading agent takes
	from    *bufio.Reader
	pending chan lineRead // nil if no read is in progress
}

func newInput(r io.Reader) input {
	token := make(chan struct{}, 1)
	token <- struct{}{}
	return input{token: token, from: bufio.NewReader(r)}
}

type lineRead struct {
	text string
	err  error
}

// maxLine is the length at which an input line is split.
const maxLine = 1 << 20

// read returns the next line of the input with its line end.
func (m *machine) read() (string, error) {
	m.checkStop()
	in := &m.in.input
	select {
	case <-in.token:
		defer func() { in.token <- struct{}{} }()
	case <-m.waiting().Done():
		m.halt()
	}
	if in.pending == nil {
		pending := make(chan lineRead, 1)
		in.pending = pending
		go func() {
			var line []byte
			for {
				part, err := in.from.ReadSlice('\n')
				line = append(line, part...)
				if !errors.Is(err, bufio.ErrBufferFull) || len(line) >= maxLine {
					if errors.Is(err, bufio.ErrBufferFull) {
						err = nil
					}
					pending <- lineRead{string(line), err}
					return
				}
			}
		}()
	}
	var r lineRead
	select {
	case r = <-in.pending:
	case <-m.waiting().Done():
		m.halt()
	}
	in.pending = nil
	return r.text, r.err
}

func inputError(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("end of input")
	}
	return fmt.Errorf("reading the input: %w", err)
}

// timeLayout converts a strftime format to a layout of package time.
func timeLayout(format string) (string, error) {
	parts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'I': "03", 'p': "PM",
		'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002", 'z': "-0700", 'Z': "MST",
		'F': "2006-01-02", 'T': "15:04:05", 'f': "000000", '%': "%",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		if i == len(format) {
			return "", errors.New("the format ends with %")
		}
		part, known := parts[format[i]]
		if !known {
			return "", fmt.Errorf("the format has %%%c, expected one of %%Y %%m %%d %%H %%M %%S %%F %%T %%y %%b "+
				"%%B %%a %%A %%j %%I %%p %%f %%z %%Z", format[i])
		}
		b.WriteString(part)
	}
	return b.String(), nil
}

func testNatives() map[string]native {
	check := func(holds func(a []Value) bool, expected func(a []Value) string) native {
		return func(m *machine, a []Value) Value {
			if !holds(a) {
				m.throw(Runtime, "expected %s", expected(a))
			}
			return unit
		}
	}
	quoted := func(v Value) string { return truncated(string(appendShown(nil, v, 1)), 500) }
	both := func(relation string) func(a []Value) string {
		return func(a []Value) string { return quoted(a[0]) + " " + relation + " " + quoted(a[1]) }
	}
	has := func(a []Value) bool { return containsValue(a[0], a[1]) }
	empty := func(a []Value) bool { return length(a[0]) == 0 }
	isTrue := func(a []Value) bool { return a[0].bool() }
	not := func(f func([]Value) bool) func([]Value) bool { return func(a []Value) bool { return !f(a) } }
	fixed := func(text string) func([]Value) string { return func([]Value) string { return text } }
	nothing := func(a []Value) string { return "nothing in " + quoted(a[0]) }
	something := fixed("something, found nothing")
	return map[string]native{
		"assert":       check(isTrue, fixed("true, found false")),
		"assert_true":  check(isTrue, fixed("true, found false")),
		"assert_false": check(not(isTrue), fixed("false, found true")),
		"assert_eq": check(func(a []Value) bool { return equal(a[0], a[1]) }, func(a []Value) string {
			return quoted(a[1]) + ", found " + quoted(a[0])
		}),
		"assert_neq": check(func(a []Value) bool { return !equal(a[0], a[1]) }, func(a []Value) string {
			return "a value other than " + quoted(a[0])
		}),
		"assert_gt":             check(func(a []Value) bool { return compare(a[0], a[1]) > 0 }, both(">")),
		"assert_lt":             check(func(a []Value) bool { return compare(a[0], a[1]) < 0 }, both("<")),
		"assert_gte":            check(func(a []Value) bool { return compare(a[0], a[1]) >= 0 }, both(">=")),
		"assert_lte":            check(func(a []Value) bool { return compare(a[0], a[1]) <= 0 }, both("<=")),
		"assert_contains":       check(has, both("to contain")),
		"assert_not_contains":   check(not(has), both("not to contain")),
		"assert_empty":          check(empty, nothing),
		"assert_empty_list":     check(empty, nothing),
		"assert_not_empty":      check(not(empty), something),
		"assert_not_empty_list": check(not(empty), something),
		"assert_starts_with": check(func(a []Value) bool { return strings.HasPrefix(a[0].text(), a[1].text()) },
			both("to start with")),
		"assert_ends_with": check(func(a []Value) bool { return strings.HasSuffix(a[0].text(), a[1].text()) },
			both("to end with")),
		"assert_len": check(func(a []Value) bool { return length(a[0]) == a[1].n }, func(a []Value) string {
			return fmt.Sprintf("a length of %d, found %d: %s", a[1].n, length(a[0]), quoted(a[0]))
		}),
	}
}
