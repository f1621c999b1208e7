package main

import (
	"strings"
	"testing"
)

var terms = []string{
	"a", "a_B@1", "'A'", "'a b'", "'a\\nb'", "'\\''", "'\\\\'", "'\\x{41}\\103\\^A'", "'end'", "'maybe'", "''", "'ü'", "'Ü'", "'÷'", "'\\x{20ac}'", "'\\d\\e\\b\\v\\f\\r\\t\\s'",
	"0", "-0", "007", "-12", "+3", "16#fF", "2#101", "36#Zz", "1_000_000", "16#f_f", "$a", "$\\n", "-$a", "123456789012345678901234567890",
	"1.0", "0.1", "-0.5", "100.0", "1000.0", "10000.0", "100000.0", "123456.0", "1234567.0", "0.01", "0.001", "0.0001", "0.00012", "0.000123",
	"1.0e10", "1.5E-7", "1.0e+22", "1.7976931348623157e308", "5.0e-324", "3.141592653589793", "12345678901234567890.0", "9007199254740993.0", "0.0", "-0.0", "1.0e15", "1.2e3",
	"{}", "{a}", "{a,{b,[c]}}", "[]", "[a]", "[a,b|c]", "[a|[b]]", "[a|[b|c]]", "[[]]", "\"abc\"", "\"\"", "\"a\\\"b\"", "[$a,1|\"bc\"]", "{shutdown,x}",
}

// Erlang's own parser and printer say the same.
func TestTerms(t *testing.T) {
	erl := needErlang(t)
	var scripts []string
	for _, text := range terms {
		if strings.Contains(text, " ") {
			text = strings.ReplaceAll(text, " ", "\\s")
		}
		text = string(toLatin1(text))
		scripts = append(scripts, "sup one_for_one 0 1 never\nchild a temporary 1 false worker ok obey\nstart\nexit a "+text)
	}
	for i, trace := range erl.run(t, scripts, jobs) {
		_, want, _ := strings.Cut(strings.TrimSpace(trace), "\n- a ")
		got, err := parseTerm(terms[i])
		if err != nil || string(toLatin1(got.String())) != want {
			t.Errorf("%s: %v, %v; Erlang prints %s", terms[i], got, err, want)
		}
	}
}

func TestBadTerms(t *testing.T) {
	for _, text := range []string{"", "{", "{a", "{a,", "{a,}", "[a|]", "[|a]", "[a|b,c]", "A", "_", "end", "'a", "\"a", "a b", "1a", "1.", "16#", "1#0", "37#0",
		"16#xyz", "-a", "--1", "$", "'\\x{110000000}'", "'\\xg'", "\\", "a}", ",", strings.Repeat("[", 5000)} {
		if got, err := parseTerm(text); err == nil {
			t.Errorf("%.20q: %v, want an error", text, got)
		}
	}
}

func FuzzTerm(f *testing.F) {
	for _, text := range terms {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseTerm(text)
		if err != nil {
			return
		}
		b, err := parseTerm(a.String())
		if err != nil || a.String() != b.String() {
			t.Errorf("%q is printed as %q, and that read as %v, %v", text, a, b, err)
		}
	})
}

func FuzzReadScripts(f *testing.F) {
	f.Add("sup one_for_one 1 5 never\nchild a permanent 100 false worker ok obey\nstart\n---\n% comment\n\nexit a {shutdown,x}\nstop")
	f.Fuzz(func(t *testing.T, text string) {
		scripts, err := readScripts(strings.NewReader(text))
		for _, s := range scripts {
			if err != nil || len(s) == 0 {
				t.Errorf("%q: %v, %v", text, scripts, err)
			}
		}
	})
}
