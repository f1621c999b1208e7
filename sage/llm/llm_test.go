package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestChecked(t *testing.T) {
	var prompts []string
	answers := []string{"I do not know", `{"name": "Ada"}`, "Here:\n```json\n{\"name\": \"Ada\", \"age\": 36}\n```"}
	m := model(func(prompt string) (string, error) {
		prompts = append(prompts, prompt)
		return answers[len(prompts)-1], nil
	})
	a, err := Checked(m, 3).Ask(testContext(t), Question{Prompt: "Who?", Schema: json.RawMessage(person)})
	if err != nil || a != `{"name": "Ada", "age": 36}` || len(prompts) != 3 {
		t.Fatalf("%q after %d prompts, %v", a, len(prompts), err)
	}
	for i, want := range []string{person, "I do not know\nWhat is wrong with it: it contains no JSON value", `required: missing properties: ["age"]`} {
		if !strings.HasPrefix(prompts[i], "Who?\n\nAnswer with one JSON value") || !strings.Contains(prompts[i], want) {
			t.Errorf("prompt %d is %q, without %q", i, prompts[i], want)
		}
	}
	if strings.Contains(prompts[2], "I do not know") {
		t.Error("the prompt grows with every answer")
	}
}

func TestCheckedGivesUp(t *testing.T) {
	asked := 0
	m := model(func(string) (string, error) {
		asked++
		return fmt.Sprintf(`{"name": "A", "age": %d.5, "more": "%s"}`, asked, strings.Repeat("é", 10_000)), nil
	})
	a, err := Checked(m, 2).Ask(testContext(t), Question{Prompt: "Who?", Schema: json.RawMessage(person)})
	var shape *ShapeError
	if !errors.Is(err, ErrShape) || !errors.As(err, &shape) || asked != 3 || shape.Tries != 3 || a != "" {
		t.Fatalf("%q, %v after %d", a, err, asked)
	}
	if !strings.HasPrefix(shape.Last, `{"name": "A", "age": 3.5`) || len(shape.Last) > maxQuoted {
		t.Errorf("the last answer is %.40q, %d bytes", shape.Last, len(shape.Last))
	}
	for _, want := range []string{"the last of 3 answers", `"more"`, "/name", "/age"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v is without %s", err, want)
		}
	}
}

// An error of the model is final.
func TestCheckedPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	m := model(func(string) (string, error) {
		if n++; n == 2 {
			return "", broken
		}
		return "no", nil
	})
	a, err := Checked(m, 9).Ask(testContext(t), Question{Prompt: "Who?", Schema: json.RawMessage(person)})
	if !errors.Is(err, broken) || a != "" || n != 2 {
		t.Errorf("%q after %d, %v", a, n, err)
	}
}

func TestQuestionsThatAreNotAsked(t *testing.T) {
	m := model(func(string) (string, error) { panic("asked") })
	for want, q := range map[string]Question{
		"the prompt is empty":            {Prompt: " \n"},
		"at most 4194304":                {Prompt: strings.Repeat("x", MaxPrompt+1)},
		"not valid UTF-8":                {Prompt: "a\xff"},
		"not valid JSON":                 {Prompt: "x", Schema: json.RawMessage(`{`)},
		"the schema of the answer":       {Prompt: "x", Schema: json.RawMessage(`{"type": 5}`)},
		"is another document":            {Prompt: "x", Schema: json.RawMessage(`{"$ref": "file:///etc/passwd"}`)},
		"other.json is another document": {Prompt: "x", Schema: json.RawMessage(`{"$ref": "other.json"}`)},
	} {
		for _, o := range []Oracle{Checked(m, 3), Mock{}} {
			if _, err := o.Ask(testContext(t), q); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%T: %v, want %s", o, err, want)
			}
		}
	}
}

// Valid JSON that could do harm is rejected quickly.
func TestHostileValues(t *testing.T) {
	for value, want := range map[string]string{
		`1e999999999`:              "out of all bounds",
		`-1E-99999999`:             "out of all bounds",
		`[1e99999999999999999999]`: "out of all bounds",
		`{"a": 1` + strings.Repeat("0", 2000) + `}`:                   "out of all bounds",
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000):         "nested more than 200 deep",
		`{"a": 1, "b": {"a": 2}, "a": "x"}`:                           `the name "a" is twice`,
		`[{"x": {"y": [{}, "k", {"k": "k", "l": "k", "\u006b":1}]}}]`: `the name "k" is twice`,
	} {
		q := Question{Prompt: "x", Schema: json.RawMessage(`{"type": ["integer", "array", "object"], "multipleOf": 1}`)}
		var s Script
		s.Add(ScriptedAnswer{Text: value})
		if _, err := s.Ask(testContext(t), q); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", value, err, want)
		}
	}
	var s Script
	s.Add(ScriptedAnswer{Text: `{"a": {"a": "a", "b": "a"}, "b": ["a", "a", 1e300]}`})
	if _, err := s.Ask(testContext(t), Question{Prompt: "x", Schema: json.RawMessage(`{}`)}); err != nil {
		t.Error(err)
	}
}

func TestMock(t *testing.T) {
	a, err := Mock{}.Ask(testContext(t), Question{Prompt: "Say hi"})
	if err != nil || a != "[Mock LLM response for: Say hi]" {
		t.Errorf("%q, %v", a, err)
	}
	for schema, want := range map[string]string{
		`{}`:                   `null`,
		`{"type": "string"}`:   `""`,
		`{"type": "integer"}`:  `0`,
		`{"type": "boolean"}`:  `false`,
		`{"type": "null"}`:     `null`,
		`{"type": "array"}`:    `[]`,
		`{"enum": ["b", "a"]}`: `"b"`,
		`{"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false, "minItems": 2}`:                                                             `["",0]`,
		`{"$defs": {"tree": {"type": "object", "required": ["next"], "properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}}, "$ref": "#/$defs/tree"}`: ``,
	} {
		a, err := Mock{}.Ask(testContext(t), Question{Prompt: "x", Schema: json.RawMessage(schema)})
		if err != nil || want != "" && a != want || a == "" {
			t.Errorf("%s: %s, %v; want %s", schema, a, err, want)
		}
	}
	for _, schema := range []string{
		`{"type": "string", "pattern": "^a+$"}`,
		`false`,
		`{"$ref": "#"}`,
		`{"$defs": {"t": {"type": "object", "required": ["l", "r"], "properties": {"l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}`,
		`{"$defs": {"t": {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}, "a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}`,
	} {
		if a, err := (Mock{}).Ask(testContext(t), Question{Prompt: "x", Schema: json.RawMessage(schema)}); err == nil {
			t.Errorf("%s: %s", schema, a)
		}
	}
}

func TestScript(t *testing.T) {
	broken := errors.New("broken")
	var s Script
	if _, err := s.Ask(testContext(t), Question{Prompt: "zero"}); err == nil {
		t.Errorf("an empty one: %v", err)
	}
	s.Add(ScriptedAnswer{Text: "one"}, ScriptedAnswer{Err: broken})
	s.Add(ScriptedAnswer{Text: `{"name": "Ada", "age": 36}`}, ScriptedAnswer{Text: `{"name": "Ada"}`})
	typed := Question{Prompt: "Who?", Schema: json.RawMessage(person)}
	if a, err := s.Ask(testContext(t), Question{Prompt: "first"}); err != nil || a != "one" {
		t.Errorf("%q, %v", a, err)
	}
	if _, err := s.Ask(testContext(t), typed); !errors.Is(err, broken) {
		t.Error(err)
	}
	if a, err := s.Ask(testContext(t), typed); err != nil || a != `{"name": "Ada", "age": 36}` {
		t.Errorf("%q, %v", a, err)
	}
	if _, err := s.Ask(testContext(t), typed); !errors.Is(err, ErrShape) || !strings.HasPrefix(err.Error(), "mocked answer 4: ") {
		t.Error(err)
	}
	_, err := s.Ask(testContext(t), typed)
	if want := `no mocked answer is left: this is question 5 ("Who?"), and the test mocks 4`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
