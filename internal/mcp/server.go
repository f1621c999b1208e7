// Package mcp serves tools of the Model Context Protocol over stdin and stdout. It has those of
// agents: the commands of agents for language models that run as agents. Each tool makes one or two
// calls of the API.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options configure a server.
type Options struct {
	Version      string // of coppice
	Instructions string // for the model: what the tools are for
	Tools        []Tool
	In           io.Reader
	Out          io.Writer // carries the protocol and nothing else
	Logger       *slog.Logger
}

// progressInterval is the interval of progress notifications for a call that takes long.
const progressInterval = 10 * time.Second

// Serve serves a client until its input or ctx ends.
func Serve(ctx context.Context, o Options) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "coppice", Version: o.Version}, &sdk.ServerOptions{
		Instructions: o.Instructions,
		Logger:       o.Logger,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	for _, t := range o.Tools {
		if err := t.addTo(s, o.Logger); err != nil {
			return err
		}
	}
	err := s.Run(ctx, newConn(o.In, o.Out))
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// addTo adds a tool to a server.
func (t Tool) addTo(s *sdk.Server, logger *slog.Logger) error {
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(t.schema()), &schema); err != nil {
		return fmt.Errorf("tool %s: %w", t.Name, err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return fmt.Errorf("tool %s: %w", t.Name, err)
	}
	s.AddTool(&sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: json.RawMessage(t.schema()),
		Annotations: t.Hints},
		func(ctx context.Context, r *sdk.CallToolRequest) (result *sdk.CallToolResult, _ error) {
			defer func() {
				if v := recover(); v != nil {
					logger.Error("a tool has panicked", "tool", t.Name, "panic", v, "stack", string(debug.Stack()))
					result = failure(errors.New("internal error of coppice mcp; its standard error says more"))
				}
			}()
			input := r.Params.Arguments
			if len(input) == 0 || string(input) == "null" {
				input = json.RawMessage("{}")
			}
			var value any
			if err := json.Unmarshal(input, &value); err != nil {
				return failure(fmt.Errorf("arguments: %w", err)), nil
			}
			if err := resolved.Validate(value); err != nil {
				return failure(fmt.Errorf("arguments: %s", validationText(err))), nil
			}
			defer reportProgress(ctx, r)()
			answer, err := t.Run(withClient(ctx, r.Session), input)
			if err != nil {
				if ctx.Err() != nil {
					err = errors.New("cancelled")
				}
				return failure(err), nil
			}
			return success(answer)
		})
	return nil
}

// validationText returns the text of a validation error without the path through the schemas.
func validationText(err error) string {
	text := err.Error()
	if _, last, ok := strings.Cut(text, "validating root: "); ok {
		text = last
	}
	return text
}

// reportProgress sends progress notifications to a client that has asked for them, until the
// returned function is called.
func reportProgress(ctx context.Context, r *sdk.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for began := time.Now(); ; {
			select {
			case now := <-ticker.C:
				// Ignore the error: the next notification makes up for this one.
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
					ProgressToken: token, Progress: now.Sub(began).Seconds(), Message: "waiting",
				})
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// success returns the result of a tool: a string and encoded JSON as it is, any other value as JSON.
func success(answer any) (*sdk.CallToolResult, error) {
	var text string
	switch answer := answer.(type) {
	case string:
		text = answer
	case json.RawMessage:
		text = string(answer)
	default:
		data, err := json.Marshal(answer)
		if err != nil {
			return failure(err), nil
		}
		text = string(data)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
}

// failure returns the result of a tool that failed. Unlike an error of the protocol, the model
// sees it.
func failure(err error) *sdk.CallToolResult {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
