package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Mock answers at once and asks nobody: "[Mock LLM response for: PROMPT]", or,
// for a schema, about the smallest value that is valid: no optional names, the
// first of an enumeration, 0, false, "". Its usage is zero.
type Mock struct{}

func (Mock) Ask(ctx context.Context, q Question) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	if err := q.check(); err != nil {
		return Answer{}, err
	}
	if q.Schema == nil {
		return Answer{Text: "[Mock LLM response for: " + q.Prompt + "]"}, nil
	}
	s, err := compile(q.Schema)
	if err != nil {
		return Answer{}, err
	}
	m := maker{fuel: 10_000}
	doc, err := m.make(s.Schema, 0)
	if err != nil {
		return Answer{}, fmt.Errorf("the mock cannot make a value for this type: %w", err)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: string(raw), JSON: raw}, nil
}

// maker makes minimal values. Schemas may refer to themselves: fuel bounds the
// work in all, maxDepth what is nested.
type maker struct{ fuel int }

const maxDepth = 30

var errNoEnd = errors.New("it holds itself without end")

func (m *maker) make(s *jsonschema.Schema, depth int) (any, error) {
	if m.fuel--; m.fuel < 0 || depth > maxDepth {
		return nil, errNoEnd
	}
	doc, err := m.guess(s, depth)
	if err != nil {
		return nil, err
	}
	return doc, schema{s}.validate(doc)
}

func (m *maker) guess(s *jsonschema.Schema, depth int) (any, error) {
	switch {
	case s.Const != nil:
		return *s.Const, nil
	case s.Enum != nil && len(s.Enum.Values) > 0:
		return s.Enum.Values[0], nil
	case s.Default != nil:
		return *s.Default, nil
	case s.Ref != nil:
		return m.make(s.Ref, depth+1)
	case len(s.AllOf) > 0 && s.Types == nil:
		return m.make(s.AllOf[0], depth+1)
	}
	if any := append(slices.Clip(s.AnyOf), s.OneOf...); len(any) > 0 {
		var first error
		for _, alternative := range any {
			doc, err := m.make(alternative, depth+1)
			if err == nil {
				return doc, nil
			}
			if first == nil {
				first = err
			}
		}
		return nil, first
	}
	switch types := typesOf(s); {
	case types == nil && len(s.Properties) == 0 || slices.Contains(types, "null"):
		return nil, nil
	case types == nil || slices.Contains(types, "object"):
		return m.object(s, depth)
	case slices.Contains(types, "boolean"):
		return false, nil
	case slices.Contains(types, "integer"), slices.Contains(types, "number"):
		return number(s), nil
	case slices.Contains(types, "string"):
		n := 0
		if s.MinLength != nil {
			n = min(*s.MinLength, 1<<20)
		}
		return strings.Repeat("x", n), nil
	}
	return m.array(s, depth)
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Types == nil {
		return nil
	}
	return s.Types.ToStrings()
}

func (m *maker) object(s *jsonschema.Schema, depth int) (any, error) {
	doc := make(map[string]any)
	for _, name := range s.Required {
		property := s.Properties[name]
		if property == nil {
			doc[name] = nil
			continue
		}
		value, err := m.make(property, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		doc[name] = value
	}
	return doc, nil
}

func (m *maker) array(s *jsonschema.Schema, depth int) (any, error) {
	doc := []any{}
	n := len(s.PrefixItems)
	if s.MinItems != nil {
		n = max(n, *s.MinItems)
	}
	for i := range n {
		item := s.Items2020
		if i < len(s.PrefixItems) {
			item = s.PrefixItems[i]
		}
		var value any
		if item != nil {
			var err error
			if value, err = m.make(item, depth+1); err != nil {
				return nil, err
			}
		} else if m.fuel--; m.fuel < 0 {
			return nil, errNoEnd
		}
		doc = append(doc, value)
	}
	return doc, nil
}

// number is the allowed whole number nearest to zero, where only bounds decide.
func number(s *jsonschema.Schema) any {
	n := new(big.Int)
	raise := func(bound *big.Rat, beyond bool) { // to the bound, or beyond it
		if bound == nil || n.Cmp(new(big.Int)) < 0 {
			return
		}
		if c := new(big.Rat).SetInt(n).Cmp(bound); c > 0 || c == 0 && !beyond {
			return
		}
		n = new(big.Int).Div(bound.Num(), bound.Denom()) // rounds down
		if beyond || !bound.IsInt() {
			n.Add(n, big.NewInt(1))
		}
	}
	raise(s.Minimum, false)
	raise(s.ExclusiveMinimum, true)
	negate := func(r *big.Rat) *big.Rat {
		if r == nil {
			return nil
		}
		return new(big.Rat).Neg(r)
	}
	if n.Sign() == 0 {
		raise(negate(s.Maximum), false)
		raise(negate(s.ExclusiveMaximum), true)
		n.Neg(n)
	}
	return json.Number(n.String())
}

// Scripted is one answer of a Script.
type Scripted struct {
	Text string // what the model says
	Err  error  // if not nil, the question fails with it
}

// Script is an Oracle for a test: it gives the answers that it was given, in
// order. An answer to a question with a schema must fit it; nothing is asked
// again. Asked more often than it has answers, it fails. The zero value has none.
type Script struct {
	mu      sync.Mutex
	answers []Scripted
	asked   int
}

// Add adds answers after those that it has.
func (s *Script) Add(answers ...Scripted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// Left is how many answers have not been asked for.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers) - s.asked
}

// ErrScriptOver is wrapped by the error of a Script that has no answer left.
var ErrScriptOver = errors.New("no mocked answer is left")

func (s *Script) Ask(ctx context.Context, q Question) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	if err := q.check(); err != nil {
		return Answer{}, err
	}
	number, next, ok := s.next()
	used := Usage{Tries: 1}
	switch {
	case !ok:
		return Answer{}, fmt.Errorf("%w: this is question %d (%.80q), and the test mocks %d", ErrScriptOver, number+1, q.Prompt, number)
	case next.Err != nil:
		return Answer{Usage: used}, next.Err
	case q.Schema == nil:
		return Answer{Text: next.Text, Usage: used}, nil
	}
	schema, err := compile(q.Schema)
	if err != nil {
		return Answer{}, err
	}
	doc, err := schema.read(next.Text)
	if err != nil {
		return Answer{Text: next.Text, Usage: used}, fmt.Errorf("mocked answer %d: %w", number+1,
			&ShapeError{Tries: 1, Last: cut(next.Text, maxQuoted), Reason: err})
	}
	return Answer{Text: next.Text, JSON: doc, Usage: used}, nil
}

// next takes an answer; number is how many were taken before.
func (s *Script) next() (number int, next Scripted, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == len(s.answers) {
		return s.asked, Scripted{}, false
	}
	s.asked++
	return s.asked - 1, s.answers[s.asked-1], true
}
