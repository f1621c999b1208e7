package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// tool is a verb of agents. What it takes is described for models, in few
// words: every request of theirs carries all of it.
type tool struct {
	name, description string
	properties        string // of its schema: JSON; "" for none
	required          string // names, in JSON: `"a","b"`
	run               func(ctx context.Context, c *caller, input json.RawMessage) (any, error)
}

func (t tool) schema() string {
	s := `{"type":"object","additionalProperties":false`
	if t.properties != "" {
		s += `,"properties":{` + t.properties + `}`
	}
	if t.required != "" {
		s += `,"required":[` + t.required + `]`
	}
	return s + "}"
}

// tools are all there are.
func tools() []tool {
	return []tool{
		{
			name:        "outcome",
			description: "Say how the work has ended; may be said again. All kinds but completed need approach and obstacle; deferred needs not_before, decomposed subtasks, blocked condition, escalated question.",
			properties: `"kind":{"type":"string","enum":["completed","deferred","decomposed","blocked","retryable","escalated"]},` +
				`"summary":{"type":"string"},` +
				`"approach":{"type":"string","description":"what was attempted"},` +
				`"obstacle":{"type":"string","description":"what was in the way: text, or the JSON of an object with kind missing_prerequisite (task_id, reason), architectural_gap (description), model_limitation (model, error_class), external_dependency (service) or scope_too_large (estimated_files, max_files)"},` +
				`"discoveries":` + texts + `,` +
				`"recommendation":{"type":"string","description":"for the next try"},` +
				`"explored_files":` + texts + `,` +
				`"not_before":{"type":"string","description":"30m, or RFC 3339"},` +
				`"subtasks":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"objective":{"type":"string"},"depends_on":` + texts + `,"definition_of_done":{"type":"string"}},"required":["id","objective"]}},` +
				`"condition":{"type":"object","description":"what it waits for","properties":{"kind":{"type":"string","enum":["task","service","person"]},"what":{"type":"string"}},"required":["kind","what"]},` +
				`"question":{"type":"string","description":"what a person has to decide"}`,
			required: `"kind"`,
			run:      verb(sayOutcome),
		},
	}
}

// texts is the schema of a list of texts.
const texts = `{"type":"array","items":{"type":"string"}}`

// verb makes a tool's run of a function of what it takes. Nothing of a value
// is lost on the way: numbers stay what they are.
func verb[In any](do func(ctx context.Context, c *caller, in In) (any, error)) func(context.Context, *caller, json.RawMessage) (any, error) {
	return func(ctx context.Context, c *caller, input json.RawMessage) (any, error) {
		var in In
		d := json.NewDecoder(bytes.NewReader(input))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return do(ctx, c, in)
	}
}
