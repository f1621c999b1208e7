package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool for models. Its description is short, because every request of a model carries
// it.
type Tool struct {
	Name, Description string
	Properties        string               // of its schema, in JSON; "" for none
	Required          string               // names, in JSON: `"a","b"`
	Hints             *sdk.ToolAnnotations // nil for none
	Run               Run
}

// Run carries out a call of a tool whose arguments fit its schema. A string or encoded JSON is the
// answer as it is, any other value is encoded in JSON.
type Run func(ctx context.Context, arguments json.RawMessage) (any, error)

// Handler adapts a function with typed input to a tool. Decoding loses no part of a value: numbers
// keep their precision.
func Handler[In any](do func(ctx context.Context, in In) (any, error)) Run {
	return func(ctx context.Context, arguments json.RawMessage) (any, error) {
		var in In
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return do(ctx, in)
	}
}

func (t Tool) schema() string {
	s := `{"type":"object","additionalProperties":false`
	if t.Properties != "" {
		s += `,"properties":{` + t.Properties + `}`
	}
	if t.Required != "" {
		s += `,"required":[` + t.Required + `]`
	}
	return s + "}"
}

type clientKey struct{}

// Client returns the name that the client of a call has given itself; empty if there is none. It
// is a claim of the client.
func Client(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// withClient returns the context of a call from a session.
func withClient(ctx context.Context, s *sdk.ServerSession) context.Context {
	if p := s.InitializeParams(); p != nil && p.ClientInfo != nil {
		ctx = context.WithValue(ctx, clientKey{}, p.ClientInfo.Name)
	}
	return ctx
}
