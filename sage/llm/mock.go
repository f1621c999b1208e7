package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/coppice-dev/coppice/internal/answer/schema"
)

// Mock answers without a model: "[Mock LLM response for: PROMPT]", or a minimal valid value for a
// schema: no optional names, the first of an enumeration, 0, false, "".
type Mock struct{}

func (Mock) Ask(ctx context.Context, q Question) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := q.check(); err != nil {
		return "", err
	}
	if q.Schema == nil {
		return "[Mock LLM response for: " + q.Prompt + "]", nil
	}
	s, err := compile(q.Schema)
	if err != nil {
		return "", err
	}
	g := generator{schema: s, fuel: 10_000}
	doc, err := g.value(s.Root, 0)
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(doc)
	}
	if err == nil {
		err = validate(s, raw)
	}
	if err != nil {
		return "", fmt.Errorf("the mock cannot make a value for this type: %w", err)
	}
	return string(raw), nil
}

// generator makes minimal values. Schemas may refer to themselves, so fuel bounds the total work
// and maxDepth the nesting.
type generator struct {
	schema *schema.Schema
	fuel   int
}

const maxDepth = 30

var errNoEnd = errors.New("it contains itself endlessly")

func (g *generator) value(s *jsonschema.Schema, depth int) (any, error) {
	if g.fuel--; g.fuel < 0 || depth > maxDepth {
		return nil, errNoEnd
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0], nil
	case s.Ref != "":
		return g.value(g.schema.Target(s), depth+1)
	case len(s.AnyOf) > 0:
		return g.anyOf(s.AnyOf, depth)
	}
	switch types := typesOf(s); {
	case types == nil && len(s.Properties) == 0 || slices.Contains(types, "null"):
		return nil, nil
	case types == nil || slices.Contains(types, "object"):
		return g.object(s, depth)
	case slices.Contains(types, "boolean"):
		return false, nil
	case slices.Contains(types, "integer"), slices.Contains(types, "number"):
		return 0, nil
	case slices.Contains(types, "string"):
		return "", nil
	}
	return g.array(s, depth)
}

// anyOf returns a value for the first alternative that has a finite one.
func (g *generator) anyOf(alternatives []*jsonschema.Schema, depth int) (doc any, err error) {
	for _, alternative := range alternatives {
		if doc, err = g.value(alternative, depth+1); err == nil {
			return doc, nil
		}
	}
	return nil, err
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func (g *generator) object(s *jsonschema.Schema, depth int) (any, error) {
	doc := make(map[string]any)
	for _, name := range s.Required {
		property := s.Properties[name]
		if property == nil {
			doc[name] = nil
			continue
		}
		value, err := g.value(property, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		doc[name] = value
	}
	return doc, nil
}

func (g *generator) array(s *jsonschema.Schema, depth int) (any, error) {
	doc := []any{}
	for _, item := range s.PrefixItems {
		value, err := g.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		doc = append(doc, value)
	}
	return doc, nil
}

// ScriptedAnswer is one answer of a Script.
type ScriptedAnswer struct {
	Text string // the text of the model
	Err  error  // if not nil, the error of the question
}

// Script is an Oracle for tests that gives prepared answers in order. An answer to a question with
// a schema must fit it; it does not ask again. After the last answer every question fails. The
// zero value has no answers.
type Script struct {
	mu      sync.Mutex
	answers []ScriptedAnswer
	asked   int
}

// Add appends answers.
func (s *Script) Add(answers ...ScriptedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

func (s *Script) Ask(ctx context.Context, q Question) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := q.check(); err != nil {
		return "", err
	}
	number, next, ok := s.next()
	switch {
	case !ok:
		return "", fmt.Errorf("no mocked answer is left: this is question %d (%.80q), and the test mocks %d",
			number+1, q.Prompt, number)
	case next.Err != nil:
		return "", next.Err
	case q.Schema == nil:
		return next.Text, nil
	}
	compiled, err := compile(q.Schema)
	if err != nil {
		return "", err
	}
	doc, err := read(compiled, next.Text)
	if err != nil {
		return "", fmt.Errorf("mocked answer %d: %w", number+1,
			&ShapeError{Tries: 1, Last: cut(next.Text, maxQuoted), Reason: err})
	}
	return string(doc), nil
}

// next takes an answer; number is the count of answers taken before.
func (s *Script) next() (number int, next ScriptedAnswer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == len(s.answers) {
		return s.asked, ScriptedAnswer{}, false
	}
	s.asked++
	return s.asked - 1, s.answers[s.asked-1], true
}
