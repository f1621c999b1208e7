// Package otlp receives what command lines of language models export of their runs as OpenTelemetry logs: OTLP over
// HTTP, as JSON. It is the only place where claude reports dollars before the end of a run.
package otlp

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// request is the part of an ExportLogsServiceRequest that is read.
type request struct {
	Resources []struct {
		Scopes []struct {
			Records []record `json:"logRecords"`
		} `json:"scopeLogs"`
	} `json:"resourceLogs"`
}

type record struct {
	Attributes []struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	} `json:"attributes"`
}

// value is an AnyValue. A 64-bit integer is a string or a number.
type value struct {
	String *string         `json:"stringValue"`
	Int    json.RawMessage `json:"intValue"`
	Double *float64        `json:"doubleValue"`
}

func (v value) text() string {
	switch {
	case v.String != nil:
		return *v.String
	case v.Double != nil:
		return strconv.FormatFloat(*v.Double, 'g', -1, 64)
	}
	var n json.Number
	if json.Unmarshal(v.Int, &n) != nil { // quotes are accepted, too
		return ""
	}
	return n.String()
}

// attributes are those of a record that are read, by key.
type attributes map[string]string

func (r record) attributes() attributes {
	all := attributes{}
	for _, a := range r.Attributes {
		switch a.Key {
		case "event.name", "event.timestamp", "session.id", "model", "request_id", "input_tokens", "output_tokens",
			"cache_read_tokens", "cache_creation_tokens", "cost_usd":
			if text := a.Value.text(); len(text) <= maxText {
				all[a.Key] = text
			}
		}
	}
	return all
}

// maxText bounds the values that are read, in bytes.
const maxText = 200

// tokens returns a number of tokens. What is not one is 0.
func (a attributes) tokens(key string) int64 {
	n, err := strconv.ParseInt(a[key], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, n)
}

// dollars returns a price. What is not a sensible one is 0.
func (a attributes) dollars(key string) float64 {
	v, err := strconv.ParseFloat(a[key], 64)
	if err != nil || !(v > 0 && v < 1e9) {
		return 0
	}
	return v
}

// Events returns what the body of a request to /v1/logs says of calls of models. Records of other events, and of other
// programs, are left out.
func Events(body []byte) (all []agentcli.Event, err error) {
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, fmt.Errorf("expected an ExportLogsServiceRequest as JSON: %w", err)
	}
	for _, r := range req.Resources {
		for _, s := range r.Scopes {
			for _, l := range s.Records {
				if a := l.attributes(); a["event.name"] == "api_request" {
					all = append(all, a.request())
				}
			}
		}
	}
	return all, nil
}

// request returns the event of a call of the model.
func (a attributes) request() agentcli.Event {
	at, _ := time.Parse(time.RFC3339Nano, a["event.timestamp"])
	return agentcli.Event{
		Kind: agentcli.Tokens, Time: at, Scope: agentcli.OfMessage, Session: a["session.id"],
		Model: a["model"], ID: a["request_id"],
		Usage: agentcli.Usage{
			Input: a.tokens("input_tokens"), Output: a.tokens("output_tokens"),
			CacheRead: a.tokens("cache_read_tokens"), CacheWrite: a.tokens("cache_creation_tokens"),
			Dollars: a.dollars("cost_usd"),
		},
	}
}
