package lsp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// JSON-RPC 2.0, as much as the protocol uses of it: one message after the
// other, each answered before the next one is read, so that an answer is always
// about the text that its request was.

// request is a message of the client: a request if it has an ID, else a
// notification. One without a method is an answer to a request of the server.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// response is an answer. One of Result and Error is set.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// outgoing is a notification of the server, or a request if it has an ID.
type outgoing struct {
	Version string `json:"jsonrpc"`
	ID      string `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// rpcError is an error that the client is collected.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// The error codes of JSON-RPC and of the protocol.
const (
	codeParse          = -32700
	codeInvalid        = -32600
	codeNoMethod       = -32601
	codeParams         = -32602
	codeInternal       = -32603
	codeNotInitialized = -32002
	codeFailed         = -32803
)

func refuse(code int, format string, args ...any) error {
	return &rpcError{code, fmt.Sprintf(format, args...)}
}

// failure returns the error that an editor shows if a request fails.
func failure(format string, args ...any) error { return refuse(codeFailed, format, args...) }

// answer handles a message, and returns what to answer; nil if nothing.
func (s *server) answer(message []byte) *response {
	var r request
	if err := json.Unmarshal(message, &r); err != nil {
		return respond(nil, nil, refuse(codeParse, "this is no message: %v", err))
	}
	// A number or a string, null or nothing.
	id := bytes.TrimSpace(r.ID)
	if len(id) > 0 && bytes.IndexByte([]byte(`"-0123456789n`), id[0]) < 0 {
		return respond(nil, nil, refuse(codeInvalid, "an id is a string or a number"))
	}
	switch {
	case r.Version != "2.0":
		return respond(id, nil, refuse(codeInvalid, "jsonrpc is %q, expected \"2.0\"", truncate(r.Version)))
	case r.Method == nil && len(id) > 0: // an answer
		return nil
	case r.Method == nil:
		return respond(nil, nil, refuse(codeInvalid, "there is no method"))
	}
	if *r.Method == "exit" && len(id) > 0 {
		return respond(id, nil, refuse(codeInvalid, "exit is a notification"))
	}
	handle := s.methods[*r.Method]
	if handle == nil {
		if len(id) == 0 {
			return nil
		}
		return respond(id, nil, refuse(codeNoMethod, "there is no method %q", truncate(*r.Method)))
	}
	var result any
	err := s.guard(*r.Method, func() (err error) {
		result, err = handle(*r.Method, r.Params)
		return err
	})
	if len(id) == 0 {
		if err != nil {
			s.log.Warn("a notification is at fault", "method", *r.Method, "error", err)
		}
		return nil
	}
	return respond(id, result, err)
}

func respond(id json.RawMessage, result any, err error) *response {
	r := &response{Version: "2.0", ID: id}
	if len(id) == 0 {
		r.ID = json.RawMessage("null")
	}
	if err == nil {
		r.Result, err = json.Marshal(result)
	}
	if err != nil {
		e, ok := errors.AsType[*rpcError](err)
		if !ok {
			e = &rpcError{codeInternal, err.Error()}
		}
		r.Error = e
	}
	return r
}

// handler handles a method.
type handler func(method string, params json.RawMessage) (any, error)

// handle makes a handler of a method: it reads the parameters, and refuses what
// comes too early or too late.
func handle[P, R any](s *server, f func(*P) (R, error)) handler {
	return func(method string, raw json.RawMessage) (any, error) {
		switch {
		case !s.initialized && method != "initialize":
			return nil, refuse(codeNotInitialized, "initialize has to come first")
		case s.shutdown:
			return nil, refuse(codeInvalid, "only exit can come after shutdown")
		}
		params := new(P)
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, params); err != nil {
				return nil, refuse(codeParams, "the parameters of %s cannot be read: %v", method, err)
			}
		}
		return f(params)
	}
}

// noResult makes a handler of a method that has no result.
func noResult[P any](s *server, f func(*P)) handler {
	return handle(s, func(p *P) (none, error) {
		f(p)
		return nil, nil
	})
}

// send sends a notification, or a request whose answer is of no interest.
func (s *server) send(id, method string, params any) error {
	return s.write(outgoing{"2.0", id, method, params})
}

func (s *server) write(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.stream.Send(data)
}
