package api

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"reflect"

	"github.com/coppice-dev/coppice/internal/token"
)

// Audience is a set of callers of a route.
type Audience int

// People use the path below /v1, agents the path below /v1/agent.
const (
	People Audience = 1 << iota
	Agents
)

// None is the request of a route without parameters, or the response of a route without an
// answer.
type None struct{}

// route is an operation as the server sees it.
type route struct {
	method, path string
	params       []param
	agent        bool // for agents, with a token; otherwise for people, and for agents to read
	body         any  // a value of the type of the body; nil for no body
	answer       any  // a value of the type of the answer or of messages; nil for none
	stream       bool
	longRunning  bool      // it may take as long as a stream
	maxBody      int64     // bytes; maxBody if 0
	doc          *routeDoc // nil if openapi describes it
	serve        func(*call) error
}

// Route is one operation of the API: the server handles it, a client calls it, and the
// description shows it. The feature that owns it declares it once, as a variable.
//
// The fields of Req are the parameters of the query if Method is GET, and the body otherwise. The
// package comment describes the tags of Req and Resp.
type Route[Req, Resp any] struct {
	Method  string
	Path    string // below /v1 or /v1/agent
	For     Audience
	MaxBody int64 // bytes; 64 KiB if 0
	// Waits means that the answer may take arbitrarily long. It is sent as a stream of one
	// message, so each side notices when the other one disconnects.
	Waits bool
	// Slow means the same, but the answer is sent as an ordinary response when it is ready.
	Slow bool

	ID      string // operationId of the description
	Summary string // in a few words
	Doc     string // details
	Returns string // the description of the answer
}

// Handle registers the handler of a route. who is the calling agent, or the zero Caller for
// people. Errors that wrap those of this package keep their status codes.
func (r Route[Req, Resp]) Handle(
	s *Server, handler func(ctx context.Context, who token.Caller, req Req) (Resp, error),
) {
	for _, a := range []Audience{People, Agents} {
		// Without a daemon the tokens of agents are not known.
		if r.For&a != 0 && (a == People || !s.local) {
			s.add(r.route(a, handler))
		}
	}
}

// route returns the route for one audience, without its types.
func (r Route[Req, Resp]) route(a Audience, handler func(context.Context, token.Caller, Req) (Resp, error)) *route {
	rt := &route{
		method: r.Method, path: "/v" + Version + r.below(a == Agents),
		agent: a == Agents, maxBody: r.MaxBody, stream: r.Waits, longRunning: r.Slow,
		doc: &routeDoc{id: r.ID, summary: r.Summary, text: r.Doc, returns: r.Returns},
	}
	if a == Agents && r.For&People != 0 {
		rt.doc.id = ownID(r.ID)
	}
	switch req := reflect.TypeFor[Req](); {
	case r.Method == http.MethodGet:
		rt.params = paramsOf(req)
	case req != reflect.TypeFor[None]():
		rt.body = *new(Req)
	}
	if reflect.TypeFor[Resp]() != reflect.TypeFor[None]() {
		rt.answer = *new(Resp)
	}
	rt.serve = func(c *call) error {
		var req Req
		if r.Method == http.MethodGet {
			c.query.decode(&req)
		} else if rt.body != nil {
			if err := c.body(&req); err != nil {
				return err
			}
		}
		if r.Waits {
			return stream(c, func(ctx context.Context) iter.Seq2[Resp, error] {
				return func(yield func(Resp, error) bool) { yield(handler(ctx, c.caller, req)) }
			}, nil)
		}
		resp, err := handler(c.r.Context(), c.caller, req)
		if err != nil {
			return err
		}
		if rt.answer == nil {
			c.respond(http.StatusNoContent, nil)
		} else {
			c.write(http.StatusOK, notNull(resp))
		}
		return nil
	}
	return rt
}

// below returns the path below the version.
func (r Route[Req, Resp]) below(agent bool) string {
	if agent {
		return "/agent" + r.Path
	}
	return r.Path
}

// notNull replaces a nil slice with an empty one, which JSON encodes as a list.
func notNull[T any](v T) any {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice && r.IsNil() {
		return reflect.MakeSlice(r.Type(), 0, 0).Interface()
	}
	return v
}

// Call calls the daemon of a client, as its person or agent. The error is ErrLost if it is
// unknown whether the operation was carried out. A route with Waits may also fail with ErrDown or
// ErrStopping, and may be called again.
func (r Route[Req, Resp]) Call(ctx context.Context, c *Client, req Req) (resp Resp, err error) {
	path := r.below(r.For == Agents || r.For&Agents != 0 && c.agent)
	var query url.Values
	var body, answer any
	if r.Method == http.MethodGet {
		query = encodeQuery(req)
	} else if _, none := any(req).(None); !none {
		body = req
	}
	if _, none := any(resp).(None); !none {
		answer = &resp
	}
	if !r.Waits {
		return resp, c.call(ctx, r.Method, path, query, body, answer)
	}
	request, err := c.request(ctx, r.Method, path, query, body)
	if err != nil {
		return resp, err
	}
	for m, err := range c.stream(request, func() {}) {
		if err == nil {
			err = json.Unmarshal(m.data, &resp)
		}
		return resp, err
	}
	return resp, ErrLost
}
