package acp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Error is the error with which an agent has answered a request.
type Error struct {
	Method  string `json:"-"`
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Kind    string `json:"-"` // as the agent spells it, such as rate_limit; empty if it gives none
}

// Codes of errors.
const (
	codeAuthRequired = -32000
	codeNotFound     = -32002
	codeInvalid      = -32600
	codeNoMethod     = -32601
	codeParams       = -32602
	codeCancelled    = -32800
)

// protocolError is the code of a failure to keep to the protocol.
const protocolError = "protocol_error"

// maxMessage bounds the message of an error, in bytes.
const maxMessage = 4 << 10

func (e *Error) Error() string {
	text := cmp.Or(e.Message, fmt.Sprintf("error %d", e.Code))
	if e.Kind != "" {
		text += " (" + e.Kind + ")"
	}
	if e.Method == "" {
		return text
	}
	return e.Method + ": " + text
}

// UnmarshalJSON never fails: an error in an unexpected form is one, too.
func (e *Error) UnmarshalJSON(text []byte) error {
	var o struct {
		Code    *json.Number    `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	var data struct {
		Kind    string `json:"errorKind"` // claude-agent-acp
		Name    string `json:"errorName"` // opencode
		Details string `json:"details"`
	}
	decode(text, &o)
	decode(o.Data, &data)
	if o.Code != nil {
		e.Code, _ = o.Code.Int64()
	}
	// What agents say of errors that they did not expect is preceded by this, or is in the details.
	said := strings.TrimPrefix(o.Message, "Internal error: ")
	if said == "Internal error" || said == "" {
		said = cmp.Or(data.Details, said)
	}
	server := agentcli.ServerFailure(said) // gemini passes on the answer of the server as it is
	e.Message, e.Kind = clipTo(server.Text, maxMessage), clip(cmp.Or(data.Kind, data.Name, server.Code))
	return nil
}

// Failure returns the error as Classify reads it. Some agents use the status of HTTP as the code.
func (e *Error) Failure() agentcli.Failure {
	f := agentcli.Failure{Code: e.Kind, Text: e.Message, Source: agentcli.FromStream}
	if e.Code >= 400 && e.Code < 600 {
		f.Status = int(e.Code)
	}
	switch {
	case f.Code != "" || f.Status != 0:
	case e.Code == codeAuthRequired:
		f.Code = "auth_required"
	case e.Code == codeNotFound:
		f.Code = "resource_not_found"
	default:
		f.Code = fmt.Sprintf("error %d", e.Code)
	}
	return f
}
