package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

const plan = `{"type": "object", "required": ["steps"], "additionalProperties": false, "properties": {
	"risk": {"enum": ["low", "high"]},
	"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}}},
	"$defs": {"step": {"type": "object", "required": ["title"], "properties": {
		"title": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}, "maxItems": 2}}}}}`

func parse(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := ParseSchema([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	draft  = `{"steps": [{"title": "draft"}]}`
	final  = `{"steps":[{"title":"x","files":["a.go"]}],"risk":"low"}`
	fenced = "```json\n" + final + "\n```"
)

func TestFind(t *testing.T) {
	s := parse(t, plan)
	for name, text := range map[string]string{
		"whole":                    final,
		"white space":              "\n\t " + final + " \r\n\n",
		"byte order mark":          "\ufeff" + final,
		"fenced":                   fenced,
		"no language":              "```\n" + final + "\n```",
		"upper case":               "```JSON\n" + final + "\n```\n",
		"jsonc":                    "~~~jsonc\n" + final + "\n~~~\n",
		"as text":                  "```text\n" + final + "\n```\n",
		"preamble":                 "Sure! Here is the plan [as asked] for {name}:\n\n" + fenced + "\n\nAnything else?",
		"prose":                    "The plan is " + final + ". I hope that it helps.",
		"unterminated fence":       "Plan:\n```json\n" + final,
		"fence on the same line":   "```json " + final + " ```",
		"windows":                  strings.ReplaceAll("Plan:\n"+fenced+"\n", "\n", "\r\n"),
		"in a list":                "1. The plan:\n\n       ```json\n       " + final + "\n       ```\n",
		"thoughts":                 "<think>\nMaybe " + draft + "?\n</think>\n\n" + final,
		"thinking":                 "<thinking>" + draft + "</thinking>" + fenced,
		"other code":               "```go\nx := T{steps: []S{{1}}}\n```\n" + fenced + "\n```sh\nfor f in {a,b}; do\n```",
		"brace before it":          "Use {x} and {{ .Name }} and [see \"a\"], then " + final,
		"brackets around it":       "[Plan: " + final + "]",
		"unbalanced brace":         "It opens a { in the text.\n" + fenced,
		"several fences":           "```json\n[1, 2]\n```\n" + fenced + "\n```json\n{\"other\": [true]}\n```",
		"twice":                    final + "\n\n" + fenced,
		"twice in another order":   `{"risk": "low", "steps": [{"files": ["a.go"], "title": "x"}]}` + "\n\n" + fenced,
		"wrapped":                  `{"plan": ` + final + `, "ok": true}`,
		"list of one":              "[" + final + "]",
		"deeply wrapped":           `{"a": {"b": [{"c": ` + final + `}]}}`,
		"trailing commas":          `{"steps": [{"title": "x", "files": ["a.go", ], }, ], "risk": "low",}`,
		"comments":                 strings.Replace(final, "{", "{ // the plan {\n/* [ */", 1) + "// \"x",
		"example that is cut":      "It has the form {\"steps\": [...]}:\n" + fenced,
		"attempt that does not":    "```json\n{\"steps\": \"none\"}\n```\nI mean:\n" + fenced,
		"repaired draft":           `{"steps": [{"title": "draft"},]}` + "\n" + final,
		"cut off before":           "```json\n{\"steps\": [\n```\nAgain:\n" + fenced,
		"code after it":            fenced + "\nThen func f() { return x[\"y\"] } works.",
		"other names after it":     fenced + "\nEach element is {\"title\": \"...\"}.",
		"invalid UTF-8 in prose":   "\xff\xfe\x00 " + final,
		"escapes":                  `{"steps": [{"title": "\u0078", "files": ["a\u002ego"]}], "risk": "low"}`,
		"wrapped in broken prose":  "(" + final + "]",
		"wrapped and then comment": "```json\n" + final + "\n// done\n```",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Find(text)
			if err != nil {
				t.Fatal(err)
			}
			if canonical := canonicalText(t, got); canonical != canonicalText(t, []byte(final)) {
				t.Errorf("got %s", got)
			}
		})
	}
}

func canonicalText(t *testing.T, text []byte) string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The strings of an answer stay as they are.
func TestFindKeepsStrings(t *testing.T) {
	s := parse(t, `{"type": "object", "required": ["t"], "properties": {"t": {"type": "string"}}}`)
	for text, want := range map[string]string{
		`x {"t": "a {b} \"c\" [ // d /* e */ http://x, ] ,}"} y`:    `{"t":"a {b} \"c\" [ // d /* e */ http://x, ] ,}"}`,
		`{"t": "http://x ,]", }`:                                    `{"t":"http://x ,]"}`,
		"{\"t\": \"```json\\n{\\\"t\\\": 1}\\n```\"}":               "{\"t\":\"```json\\n{\\\"t\\\": 1}\\n```\"}",
		"{\"t\": \"a\nb\r\n\tc\"}":                                  `{"t":"a\nb\r\n\tc"}`,
		"```json\r\n{\"t\": \"a\r\nb\"}\r\n```":                     `{"t":"a\r\nb"}`,
		`{"t": "<think>{\"t\": \"b\"}</think>", "n": 1.50}`:         `{"t":"<think>{\"t\": \"b\"}</think>","n":1.50}`,
		`{"t": "{\"t\": \"inner\"}", "n": 12345678901234567890}`:    `{"t":"{\"t\": \"inner\"}","n":12345678901234567890}`,
		"{\"t\": \"a\\u0000b\u00e9\U0001f600\\ud83d\\ude00\"} \x00": "{\"t\":\"a\\u0000b\u00e9\U0001f600\\ud83d\\ude00\"}",
	} {
		if got, err := s.Find(text); err != nil || string(got) != want {
			t.Errorf("%s\ngot  %s, %v\nwant %s", text, got, err, want)
		}
	}
}

func TestFindOtherTypes(t *testing.T) {
	list := `{"type": "array", "items": {"type": "string"}}`
	for name, c := range map[string]struct{ schema, text, want, err string }{
		"string":            {`{"type": "string"}`, `"yes"`, `"yes"`, ""},
		"number in a fence": {`{"type": "integer"}`, "It is:\n```\n42\n```", `42`, ""},
		"number in prose":   {`{"type": "integer"}`, "It is 42.", "", "has no JSON object or array"},
		"list":              {list, `x ["a", "b"] y`, `["a","b"]`, ""},
		"list of lists":     {list, `[["a"], ["b"]]`, "", "/0: type: [a] has type"},
		"list cut off":      {list, `["a"] and ["b", "c`, "", "the value at 1:11 is cut off at 1:19"},
		"list and prose":    {list, `["a"] [see "x"] [7]`, "", "the value at 1:17 does not fit: /0"},
		"anything":          {`true`, "[1]", "[1]", ""},
		"nothing":           {`false`, "[1]", "", "not: validated against"},
		"reference": {`{"$ref": "#/$defs/a", "$defs": {"a": ` + list + `}}`,
			`[1]`, "", `expected JSON of type array`},
		"draft 7": {`{"$schema": "http://json-schema.org/draft-07/schema#", "type": ["object", "null"]}`,
			"null", "null", ""},
		"fits only as a part": {`{"type": "object", "required": ["a"], "anyOf": [{"properties": {"b": true}}]}`,
			`{"b": {"a": 1}}`, "", "the value at 1:1 does not fit: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, c.schema).Find(c.text)
			if string(got) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %s, %v; want %s, %s", got, err, c.want, c.err)
			}
		})
	}
}

func TestFindErrors(t *testing.T) {
	s := parse(t, plan)
	const expected = `; expected JSON of type object with ["steps"]`
	for name, c := range map[string]struct {
		text string
		kind Kind
		want string
	}{
		"empty":    {"", NoValue, "the answer has no JSON object or array"},
		"prose":    {"I cannot do {this}.", NoValue, "the answer has no JSON object or array"},
		"too long": {strings.Repeat(" ", MaxText+1), TooLarge, "the answer has 1048577 bytes, at most 1048576 are read"},

		"cut off": {"Plan:\n" + `é {"steps": [{"title": "a"}, {"title": "b"}`,
			Malformed, "the value at 2:3 is cut off at 2:44"},
		"cut off in text": {`{"steps": [{"title": "unti`, Malformed, "the value at 1:1 is cut off at 1:27"},
		"cut off literal": {`{"steps": [], "risk": fal`, Malformed, "the value at 1:1 is cut off at 1:26"},
		"cut off fence": {"```json\n{\"steps\": [{\"title\": \"a\"},\n",
			Malformed, "the value at 2:1 is cut off at 2:27"},
		"cut off after one": {final + "\nBetter:\n" + `{"steps": [{"title": "b"`,
			Malformed, "the value at 3:1 is cut off at 3:25"},
		"cut off wrapper": {`{"plan": {"steps": []}, "x": "`, Malformed, "the value at 1:1 is cut off at 1:31"},

		"no comma": {`{"steps": [] "risk": "low"}`,
			Malformed, `the value at 1:1 is not JSON: unexpected "\"risk\": \"low\"}" at 1:14`},
		"python": {draft + ` {'steps': [{'title': 'x'}]}`,
			Malformed, `the value at 1:33 is not JSON: unexpected "'steps': [{'title': 'x'}]}" at 1:34`},
		"javascript": {`{steps: [{title: "x"}]}`,
			Malformed, `the value at 1:1 is not JSON: unexpected "steps: [{title: \"x\"}]}" at 1:2`},
		"ellipsis":   {`{"steps": [...]}`, Malformed, `unexpected "...]}" at 1:12`},
		"bad escape": {`{"steps": [{"title": "\d"}]}`, Malformed, `unexpected "\\d\"}]}" at 1:23`},
		"name twice": {`{"steps": [], "steps": [{"title": "x"}]}`,
			Malformed, `the value at 1:1 is not acceptable: the key "steps" is there twice`},
		"same name":    {`{"steps": [], "st\u0065ps": []}`, Malformed, `the key "steps" is there twice`},
		"UTF-8":        {"{\"steps\": [{\"title\": \"\xff\"}]}", Malformed, "the byte 0xff is not UTF-8"},
		"NUL":          {"{\"steps\": [{\"title\": \"\x00\"}]}", Malformed, "the value at 1:1 is not JSON"},
		"large number": {`{"steps": [{"title": "x", "n": 1e400}]}`, Malformed, "the number 1e400 is out of range"},
		"huge number":  {`{"steps": [{"title": "x", "n": 1e99999}]}`, Malformed, "the exponent of 1e99999 is out of range"},
		"deep": {`{"steps": [{"title": "x", "n": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]}`,
			Malformed, "nested more than 100 levels deep"},

		"missing": {`{"risk": "low"}`,
			Mismatch, `the value at 1:1 does not fit: required: missing properties: ["steps"]`},
		"several faults": {"x\n" + `{"steps": [{"title": 1}, {"files": ["a", "b", "c"]}], "risk": "none"}`,
			Mismatch, `the value at 2:1 does not fit: /risk: enum: none does not equal any of: [low high]; ` +
				`/steps/0/title: type: 1 has type "integer", want "string"; /steps/1: required: missing properties: ["title"]`},
		"in a wrapper": {`{"plan": {"steps": [7]}}`,
			Mismatch, `the value at 1:10 does not fit: /steps/0: type: 7 has type "integer", want "object"`},
		"last one": {draft + ` or {"steps": 1}`,
			Mismatch, `the value at 1:36 does not fit: /steps: type: 1 has type "integer", want "array" (2 candidates)`},
		"part of one": {`{"steps": [{"steps": []}]}`,
			Mismatch, `the value at 1:1 does not fit: /steps/0: required: missing properties: ["title"]`},
		"closest":  {`{"a": 1} {"bcd": 2} {}`, Mismatch, `the value at 1:10 does not fit: `},
		"repaired": {`{"steps": [7,]}`, Mismatch, `the value at 1:1 does not fit: /steps/0: type`},
		"wrapped too deep": {strings.Repeat("[", 10) + final + strings.Repeat("]", 10),
			Mismatch, `the value at 1:1 does not fit: `},

		"two": {draft + "\nor\n" + fenced,
			Ambiguous, "the value at 4:1 and that at 1:1 both fit, but differ: give only one (2 candidates)"},
		"list of two":     {"[" + draft + ", " + final + "]", Ambiguous, "the value at 1:35 and that at 1:2 both fit"},
		"valid, repaired": {draft + "\n" + `{"steps": [],}`, Ambiguous, "the value at 2:1 and that at 1:1 both fit"},
		"two repaired": {`{"steps": [{"title": "x"},]} {"steps": [],}`,
			Ambiguous, "the value at 1:30 and that at 1:1 both fit"},
		"draft and script": {"\x1b[31m" + draft + "\u202e\n" + fenced,
			Ambiguous, "the value at 3:1 and that at 1:6 both fit"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Find(c.text)
			e, ok := errors.AsType[*Error](err)
			if !ok || got != nil {
				t.Fatalf("got %s, %v", got, err)
			}
			if e.Kind != c.kind || !strings.Contains(e.Error(), c.want) || !strings.HasSuffix(e.Error(), expected) {
				t.Errorf("kind %d: %v\nwant %d: %s", e.Kind, e, c.kind, c.want)
			}
			if (e.Line == 0) != (c.kind == NoValue || c.kind == TooLarge) {
				t.Errorf("line %d", e.Line)
			}
		})
	}
}

func TestErrorPointer(t *testing.T) {
	_, err := parse(t, plan).Find(`{"steps": [{"title": "a"}, {"title": 5}]}`)
	if e, ok := errors.AsType[*Error](err); !ok || e.Pointer != "/steps/1/title" || e.Line != 1 || e.Candidates != 1 {
		t.Errorf("%+v", err)
	}
}

// Whatever is in the text, an error is one plain line of bounded length.
func TestErrorsArePlain(t *testing.T) {
	long := strings.Repeat("\\u001b[31m\\n\\u202eé", 10_000)
	for _, text := range []string{
		`{"steps": "` + long + `"}`,
		`{"steps": [], "` + long + `": 1}`,
		`{"steps": [], "` + long + `": 1, "` + long + `": 2}`,
		"{\"steps\": \x1b[31m\u202e\xff\n" + strings.Repeat("x", 10_000),
		"{\"steps\": [" + strings.Repeat("9", 10_000) + "]}",
	} {
		_, err := parse(t, plan).Find(text)
		if err == nil {
			t.Errorf("%.40q fits", text)
			continue
		}
		if got := err.Error(); len(got) > maxError || got != plaintext.Line(got) || strings.Contains(got, "\n") {
			t.Errorf("%.40q: %q", text, got)
		}
	}
}

// hostile are texts that make careless readers take quadratic time or deep recursion.
var hostile = []string{"[", "{", "[[x]", "[1 x]", "{x}", "```\n[x]\n```\n", `{"`, "```json\n", "[1,", `"`, `{"a":`,
	`{"a":[`, `{"a":{"a":`, `["`, "[//", "{/*", `{"a":1}`, `{"steps":[]}`, `{"steps":[],}`, `{"steps":[{}]}`, "[]", "{} ",
	`[{"steps":[]}]`, `{"steps":1} `, "{steps} ", `{"steps" x} `, `[{"a":[{"b":`, "steps"}

func TestHostile(t *testing.T) {
	s := parse(t, plan)
	for _, unit := range hostile {
		text := "- " + strings.Repeat(unit, MaxText/4/len(unit)) + "]]]"
		begun := time.Now()
		_, err := s.Find(text)
		if fits := strings.Contains(unit, `{"steps":[]`); fits != (err == nil) {
			t.Errorf("%q: %v", unit, err)
		}
		if d := time.Since(begun); d > 30*time.Second {
			t.Errorf("%q: took %v", unit, d)
		}
	}
	deep := strings.Repeat(`{"a":`, MaxText/7) + "1" + strings.Repeat("}", MaxText/7)
	wide := `{"steps":[` + strings.TrimSuffix(strings.Repeat(`{"title":"x"},`, 5_000), ",") + `]}`
	nested := wide
	for range maxWrappers {
		nested = `{"a":` + nested + `}`
	}
	for _, text := range []string{deep, wide, nested, `{"steps":[` + strings.Repeat("0,", MaxText/2-20) + "0]}"} {
		begun := time.Now()
		_, err := s.Find(text)
		if d := time.Since(begun); d > 30*time.Second {
			t.Errorf("%.40s: took %v, %v", text, d, err)
		}
	}
}

// Checking a value against many schemas is bounded as a whole.
func TestWorkIsBounded(t *testing.T) {
	s := parse(t, `{"allOf": [`+strings.Repeat(`{"type": "object"},`, 900)+`{"required": ["a"]}]}`)
	_, err := s.Find(strings.Repeat("{} ", MaxText/3))
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != TooLarge {
		t.Error(err)
	}
}

func BenchmarkFind(b *testing.B) {
	s := parse(b, plan)
	texts := map[string]string{"answer": "Here is the plan:\n\n" + fenced + "\n\nAnything else?"}
	for _, unit := range hostile {
		texts[fmt.Sprintf("%q", unit)] = "- " + strings.Repeat(unit, (MaxText-2)/len(unit))
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = s.Find(text)
			}
		})
	}
}

func FuzzFind(f *testing.F) {
	for _, text := range append(hostile, draft, fenced, draft+fenced,
		`[{"steps": [],/* x */}`, "{\"steps\": [{\"title\": \"\n\"}]}") {
		f.Add(text)
	}
	s := parse(f, plan)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := s.Find(text)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || got != nil || e.Error() != plaintext.OneLine(e.Error(), maxError) {
				t.Fatalf("%q: %s, %q", text, got, err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q: %q is not JSON", text, got)
		}
		if err := s.schema.Validate(got); err != nil {
			t.Fatalf("%q: %q does not fit: %v", text, got, err)
		}
		if again, err := s.Find(string(got)); err != nil || string(again) != string(got) {
			t.Fatalf("%q: of itself %q, %v", got, again, err)
		}
	})
}
