package candidate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// all describes the values of a text, one a line.
func all(text string) string {
	var b strings.Builder
	for p := range Parts(text) {
		for v := range p.Values() {
			line, column := Position(text, v.Start)
			fmt.Fprintf(&b, "%d:%d %s %s", line, column, [...]string{"valid", "repair", "cut", "broken"}[v.State], v.Text())
			if v.State >= CutOff {
				line, column := Position(text, v.Fault)
				fmt.Fprintf(&b, " at %d:%d", line, column)
			}
			b.WriteByte('\n')
		}
	}
	return strings.TrimSpace(b.String())
}

func TestValues(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {" \ufeff\n", ""},
		"whole":              {` {"a": 1} `, `1:2 valid {"a": 1}`},
		"scalar":             {"\ufeff42\n", `1:2 valid 42`},
		"prose":              {"It is 42.", ""},
		"fence":              {"Yes:\r\n```json\r\n{\"a\": 1}\r\n```\r\n", `3:1 valid {"a": 1}`},
		"scalar in a fence":  {"Yes:\n```\n42\n```", `3:1 valid 42`},
		"unterminated fence": {"Yes:\n```JSON\n[1]", `3:1 valid [1]`},
		"other language":     {"```go\nx := []int{1}\n```\n~~~js\n[1]\n~~~", "5:1 valid [1]"},
		"value on the fence": {"```json {\"a\": 1}\n```", `1:9 valid {"a": 1}`},
		"one line":           {"Yes: ```json {\"a\": 1}```", `1:14 valid {"a": 1}`},
		"fence after value":  {"```json\n{\"a\": 1}```\n", `2:1 valid {"a": 1}`},
		"two fences":         {"```\n[1]\n```\n```json\n[2]\n```", "2:1 valid [1]\n5:1 valid [2]"},
		"thoughts":           {`<think>[1]</think>[2]`, `1:19 valid [2]`},
		"thinking":           {"<thinking>[1]</thinking>\n[2]", `2:1 valid [2]`},
		"endless thoughts":   {`<think>[1]`, `1:8 valid [1]`},
		"brackets in prose":  {`As {name} says [p. 7, 8], {} [sic] ([])`, "1:27 valid {}\n1:37 valid []"},
		"link":               {`See [the docs](http://x) [x] and {x: 1}, [ ]`, "1:42 valid [ ]"},
		"strings":            {`x {"a": "}]\"{", "b": ["http://x/*"]} y`, `1:3 valid {"a": "}]\"{", "b": ["http://x/*"]}`},
		"bracket at the end": {`[1] and {`, "1:1 valid [1]"},
		"template":           {`x {{name}} {"a": 1}`, "1:3 broken {{name}} at 1:4\n1:12 valid {\"a\": 1}"},
		"quotes in brackets": {`[see "x"] [1]`, "1:1 broken [ at 1:2\n1:11 valid [1]"},
		"value in brackets":  {`[see {"a": 1}]`, "1:1 broken [ at 1:2\n1:6 valid {\"a\": 1}"},

		"trailing commas":    {`{"a": [1, 2,], } x`, `1:1 repair {"a": [1, 2] }`},
		"comments":           {"{ // x\n\"a\": /* , */ 1, // y\n}", "1:1 repair {  \"a\":   1  }"},
		"comma and comments": {"[1, /* x */ // y\n]", "1:1 repair [1    ]"},
		"line breaks":        {"{\"a\": \"x\r\n\ty\"}", `1:1 repair {"a": "x\r\n\ty"}`},

		"cut off":            {`{"a": [1, 2], "b": "x`, `1:1 cut {"a": [1, 2], "b": "x at 1:22`},
		"cut off in a name":  {`{"a": 1, "b`, `1:1 cut {"a": 1, "b at 1:12`},
		"cut off at once":    {`{"`, `1:1 cut {" at 1:3`},
		"cut off literal":    {`x {"a": fal`, `1:3 cut {"a": fal at 1:12`},
		"cut off escape":     {`{"a": "\u12`, `1:1 cut {"a": "\u12 at 1:12`},
		"cut off comment":    {`{"a": 1 /* x`, `1:1 cut {"a": 1 /* x at 1:13`},
		"cut off list":       {`[1, 2`, `1:1 cut [1, 2 at 1:6`},
		"cut off by a fence": {"```json\n{\"a\":\n```\n[1]", "2:1 cut {\"a\": at 2:6\n4:1 valid [1]"},

		"no comma":     {`{"a": 1 "b": 2} []`, "1:1 broken {\"a\": 1 \"b\": 2} at 1:9\n1:17 valid []"},
		"two commas":   {`["a",,] []`, "1:1 broken [\"a\",,] at 1:6\n1:9 valid []"},
		"only a comma": {`{"a": {,}}`, `1:1 broken {"a": {,}} at 1:8`},
		"no value":     {`{"a":} []`, "1:1 broken {\"a\":} at 1:6\n1:8 valid []"},
		"mixed":        {`{"a": [1}] []`, "1:1 broken {\"a\": [1}] at 1:9\n1:12 valid []"},
		"python":       {`{'a': [1, 2]}`, `1:1 broken {'a': [1, 2]} at 1:2`},
		"javascript":   {`{a: [1, 2]}`, `1:1 broken {a: [1, 2]} at 1:2`},
		"quotes in string": {`{"a": "say "hi" to [x]", "b": {"a": "x"}} []`,
			"1:1 broken {\"a\": \"say \"hi\" to [x]\", \"b\": {\"a\": \"x\"}} at 1:13\n1:43 valid []"},
		"bad escape": {`{"a": "\d"}`, `1:1 broken {"a": "\d"} at 1:8`},
		"control":    {"{\"a\": \"\x00\"}", "1:1 broken {\"a\": \"\x00\"} at 1:8"},
		"bad number": {`{"a": 01}`, `1:1 broken {"a": 01} at 1:7`},
		"ellipsis":   {`{"a": [...]}`, `1:1 broken {"a": [...]} at 1:8`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := all(c.text); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestChildren(t *testing.T) {
	for p := range Parts(`{"a": {"b": [1]}, "c]\"": "{}", "d": [], "e": 5}`) {
		for v := range p.Values() {
			var got []string
			for c := range v.Children() {
				got = append(got, c.Text())
			}
			if want := []string{`{"b": [1]}`, `[]`}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	for p := range Parts(`"{}"`) {
		for v := range p.Values() {
			for c := range v.Children() {
				t.Errorf("a string has the child %s", c.Text())
			}
		}
	}
}

// hostile are texts that make careless readers take quadratic time or deep recursion.
var hostile = []string{"[", "{", "[[x]", "[1 x]", "{x}", "```\n[x]\n```\n", `{"`, "```json\n", "[1,", `"`, "~~~~\n",
	`{"a":`, `{"a":[`, `["`, `[",`, `["\"`, "[//", "{//", "[/*", "{/*", "[1,//", "[1,/*", "[ ", "[\"a\" ", "[[1] ",
	`{"a":1}`, `{"a":1,}`, `{"a":"`, "[]", "{]", "[}", `{"\`, "{\"a\":\n", "<think>", "//", "[x{", "[[{", "[1,2 {"}

func TestLinear(t *testing.T) {
	for _, unit := range hostile {
		text := "- " + strings.Repeat(unit, (1<<18)/len(unit))
		begun := time.Now()
		for p := range Parts(text) {
			for range p.Values() {
			}
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("%q: took %v", unit, d)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for _, unit := range hostile {
		text := "- " + strings.Repeat(unit, (1<<20)/len(unit))
		b.Run(fmt.Sprintf("%q", unit), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for p := range Parts(text) {
					for range p.Values() {
					}
				}
			}
		})
	}
}

func FuzzValues(f *testing.F) {
	for _, unit := range hostile {
		f.Add(unit + unit)
	}
	f.Add("x [1] {\"a\": [}, \"b\": \"x\ny\", /* c */ \"d\": [1,],}")
	f.Fuzz(func(t *testing.T, text string) {
		for p := range Parts(text) {
			if p.Start < 0 || p.Start >= p.End || p.End > len(text) {
				t.Fatalf("section %d to %d of %d", p.Start, p.End, len(text))
			}
			at := p.Start
			for v := range p.Values() {
				if v.Start < at || v.End <= v.Start || v.End > p.End || v.State >= Repairable && v.Fault < v.Start ||
					v.Fault > p.End {
					t.Fatalf("%+v after %d in %+v", v, at, p)
				}
				at = v.End
				if valid := json.Valid([]byte(v.Text())); valid != (v.State <= Repairable) &&
					!(v.State > Repairable && v.End < p.End) {
					t.Fatalf("%+v is valid: %v", v, valid)
				}
				if v.State == Valid && text[v.Start:v.End] != v.Text() {
					t.Fatalf("%+v is %q", v, v.Text())
				}
				for c := range v.Children() {
					if !json.Valid([]byte(c.Text())) {
						t.Fatalf("child %q of %q", c.Text(), v.Text())
					}
				}
			}
		}
	})
}
