package llm

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of these tests.
const testTimeout = time.Minute

// testContext returns a context that ends a test that hangs.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTimeout, errors.New("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

// model is a function as a Model.
type model func(prompt string) (string, error)

func (m model) Complete(_ context.Context, prompt string) (string, error) { return m(prompt) }

const person = `{"type": "object", "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer"}},
	"required": ["name", "age"], "additionalProperties": false}`
