package llm

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestExtract(t *testing.T) {
	const fenced = "```json\n{\"a\": 1}\n```"
	for name, c := range map[string]struct{ text, want, err string }{
		"object":                {text: ` {"a": 1} `, want: `{"a": 1}`},
		"byte order mark":       {text: "\ufeff{}", want: `{}`},
		"number":                {text: "42\n", want: `42`},
		"string":                {text: `"yes"`, want: `"yes"`},
		"fence":                 {text: fenced, want: `{"a": 1}`},
		"fence and prose":       {text: "Sure! Here it is [as asked]:\n\n" + fenced + "\n\nAnything else?", want: `{"a": 1}`},
		"tildes":                {text: "~~~\n[1]\n~~~~", want: `[1]`},
		"fence without end":     {text: "Here:\n```json\n{\"a\": 1}", want: `{"a": 1}`},
		"windows":               {text: "Here:\r\n```json\r\n{\"a\": 1}\r\n```\r\n", want: `{"a": 1}`},
		"number in a fence":     {text: "It is:\n```\n42\n```", want: `42`},
		"prose in a fence":      {text: "```\nanswer: {\"a\": 1}\n```", want: `{"a": 1}`},
		"fence in a string":     {text: `{"code": "` + "```go\\nx\\n```" + `"}`, want: `{"code": "` + "```go\\nx\\n```" + `"}`},
		"code beside it":        {text: "```python\nx = {\"b\": [1]}\n```\nso: {\"a\": 1}", want: `{"a": 1}`},
		"prose around it":       {text: `The answer is {"a": {"b": [1, "}"]}}, I think.`, want: `{"a": {"b": [1, "}"]}}`},
		"trailing text":         {text: `{"a": 1} hope this helps`, want: `{"a": 1}`},
		"brackets in the prose": {text: `As {name} says [p. 7], {"a": 1} [sic]`, want: `{"a": 1}`},
		"array of objects":      {text: `x [{"a": 1}, {"a": 2}] y`, want: `[{"a": 1}, {"a": 2}]`},
		"thought aloud":         {text: `<think>maybe {"a": 0}?</think> {"a": 1}`, want: `{"a": 1}`},

		"nothing":               {text: " \n", err: "it is empty"},
		"prose":                 {text: "I cannot say.", err: "it contains no JSON value"},
		"number in prose":       {text: "It is 42.", err: "it contains no JSON value"},
		"two objects":           {text: `{"a": 1} or {"a": 2}`, err: `it contains more than one JSON value: "{\"a\": 1}" at 1:1 and "{\"a\": 2}" at 1:13`},
		"two fences":            {text: fenced + "\nor\n" + fenced, err: "more than one"},
		"fence and object":      {text: "{}\n" + fenced, err: `"{}" at 1:1 and "{\"a\": 1}" at 3:1`},
		"cut off":               {text: "ok:\n é {\"a\": [1, 2], \"b\": \"x", err: `the value at 2:4, which starts with "{\"a\": [1, 2], \"b\": \"x", is not valid JSON`},
		"trailing comma":        {text: `{"a": [1, 2],}`, err: "the value at 1:1"},
		"not JSON but python":   {text: `{'a': [1, 2]}`, err: "the value at 1:1"},
		"broken fence":          {text: "```json\n{\"a\": [1],}\n```", err: "the code block at 2:1 is not valid JSON"},
		"valid inside broken":   {text: `{"a": [1], oops}`, err: "the value at 1:1"},
		"two values in a fence": {text: "```json\n{}\n{}\n```", err: "the code block at 2:1 is not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Extract(c.text)
			switch {
			case c.err == "" && (err != nil || string(got) != c.want):
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %s, %v; want the error %s", got, err, c.err)
			}
		})
	}
}

// Hostile texts take no longer than other texts of their length.
func TestExtractIsLinear(t *testing.T) {
	for _, unit := range []string{"[", "{", "[[x]", "[1 x]", "{x}", "```\n[x]\n```\n", `{"`, "```json\n", "[1,", `"`, "~~~~\n"} {
		text := "- " + strings.Repeat(unit, (1<<20)/len(unit))
		begun := time.Now()
		if doc, err := Extract(text); err == nil {
			t.Errorf("%q: found %.40s", unit, doc)
		}
		if d := time.Since(begun); d > 30*time.Second {
			t.Errorf("%q: took %v", unit, d)
		}
	}
}

func FuzzExtract(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "```json\n[1]\n```", "x [1] {\"a\": [}", "~~~\n{", "<think>[</think>[]", "``````\n{}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := Extract(text)
		if err != nil {
			if doc != nil || strings.TrimSpace(err.Error()) == "" {
				t.Fatalf("%q: %s, %v", text, doc, err)
			}
			return
		}
		if !json.Valid(doc) {
			t.Fatalf("%q: %q is not JSON", text, doc)
		}
		if !strings.Contains(text, string(doc)) {
			t.Fatalf("%q: %q is not in it", text, doc)
		}
		if again, err := Extract(string(doc)); err != nil || string(again) != string(doc) {
			t.Fatalf("%q: of itself %q, %v", doc, again, err)
		}
	})
}
