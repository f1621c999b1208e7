package lsp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The subset of JSON-RPC 2.0 that the protocol uses. Messages are answered one after the other, so
// that an answer is always about the text at the time of its request.

// request is a message from the client: a request if it has an ID, else a notification. Without a
// method it is the answer to a request of the server.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// response is an answer. Either Result or Error is set.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// outgoing is a notification from the server, or a request if it has an ID.
type outgoing struct {
	Version string `json:"jsonrpc"`
	ID      string `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// rpcError is an error reported to the client.
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

// failure returns the error that an editor shows for a failed request.
func failure(format string, args ...any) error { return refuse(codeFailed, format, args...) }

// answer handles a message and returns the response, nil if there is none.
func (s *server) answer(message []byte) *response {
	var r request
	if err := json.Unmarshal(message, &r); err != nil {
		return respond(nil, nil, refuse(codeParse, "invalid message: %v", err))
	}
	// An ID is a string, a number, null or absent.
	id := bytes.TrimSpace(r.ID)
	if len(id) > 0 && bytes.IndexByte([]byte(`"-0123456789n`), id[0]) < 0 {
		return respond(nil, nil, refuse(codeInvalid, "the id must be a string or a number"))
	}
	switch {
	case r.Version != "2.0":
		return respond(id, nil, refuse(codeInvalid, "jsonrpc is %q, expected \"2.0\"", truncate(r.Version)))
	case r.Method == nil && len(id) > 0: // an answer
		return nil
	case r.Method == nil:
		return respond(nil, nil, refuse(codeInvalid, "missing method"))
	}
	if *r.Method == "exit" && len(id) > 0 {
		return respond(id, nil, refuse(codeInvalid, "exit is a notification"))
	}
	handle := s.methods[*r.Method]
	if handle == nil {
		if len(id) == 0 {
			return nil
		}
		return respond(id, nil, refuse(codeNoMethod, "unknown method %q", truncate(*r.Method)))
	}
	var result any
	err := s.guard(*r.Method, func() (err error) {
		result, err = handle(*r.Method, r.Params)
		return err
	})
	if len(id) == 0 {
		if err != nil {
			s.log.Warn("cannot handle notification", "method", *r.Method, "error", err)
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

// handle returns a handler that decodes parameters and rejects requests before initialize or after
// shutdown.
func handle[P, R any](s *server, f func(*P) (R, error)) handler {
	return func(method string, raw json.RawMessage) (any, error) {
		switch {
		case !s.initialized && method != "initialize":
			return nil, refuse(codeNotInitialized, "initialize must come first")
		case s.shutdown:
			return nil, refuse(codeInvalid, "only exit is allowed after shutdown")
		}
		params := new(P)
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, params); err != nil {
				return nil, refuse(codeParams, "decoding the parameters of %s: %v", method, err)
			}
		}
		return f(params)
	}
}

// noResult returns a handler for a method without a result.
func noResult[P any](s *server, f func(*P)) handler {
	return handle(s, func(p *P) (none, error) {
		f(p)
		return nil, nil
	})
}

// send sends a notification, or a request whose answer is ignored.
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
