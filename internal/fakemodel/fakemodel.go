// Package fakemodel serves the APIs of language models for tests. It answers as a scenario says,
// and keeps a ledger of what it has served, so that a test knows what a client was told:
//
//	Anthropic Messages        POST .../v1/messages            streamed or not; .../count_tokens
//	OpenAI Responses          POST .../v1/responses           streamed or not
//	OpenAI Chat Completions   POST .../v1/chat/completions    streamed or not
//	Gemini                    POST .../v1beta/models/M:generateContent, :streamGenerateContent, :countTokens
//
// A GET of .../models lists a few models, and one of .../api/oauth/usage tells what is left of a plan of
// Anthropic. The path in front of the API chooses the answers, so that one server serves many clients
// in different ways at the same time:
//
//	/s/SCENARIO/TAG     the base URL of a client
//	/s/@/TAG            the same, with a scenario that is set by SetScenario or POST /_ctl/TAG
//	GET /_ledger        the ledger; with ?tag=T of one tag, with &sum=1 its sums
//	POST /_ctl/TAG      sets the scenario of /s/@/TAG to the body, and begins with its first step
//	GET /_requests/TAG  the last 50 requests of a tag, as they came
//
// A tag is any word. In a scenario within a path, a space is %20, a slash is %2F, a question mark
// is %3F; the characters : , = * need no escape.
//
// # Scenarios
//
// A scenario is a list of steps, separated by commas. The nth request of a tag is answered by the
// nth step, and the last step answers all that follow. STEP*3 stands for three of them.
//
// A request without tools, such as one for a title, and a request for JSON with a schema are "on
// the side": they take no step. They are answered as by normal, unless the step is a failure.
//
//	normal[=N]       an answer, and its usage (see AnswerUsage), multiplied by N
//	slow[=S]         the same after a word each second for S seconds (10)
//	tool[=CMD]       a call of the tool that runs shell commands; once it has its result, as normal
//	loop[=CMD]       a call of that tool each time, without end
//	call=NAME:JSON   a call of the tool that is called NAME or ends with _NAME or .NAME, with these
//	                 arguments; once it was called, as normal. If it is missing and there is a tool
//	                 ToolSearch, that one is called first, with the full name of the MCP tool
//	json=TEXT        an answer with this text
//	ratelimit[=S]    429, short: too many requests; try again in S seconds (2)
//	quota[=S]        429, long: the plan is used up until S seconds from now (7200)
//	spend            the credit is used up
//	auth             the API key is wrong
//	e500             an internal error
//	overloaded       529 of Anthropic, 503 of the others
//	context          the prompt is too long for the model
//	hang             no answer, until the client disconnects
//	hangmid          half a streamed answer, and nothing more
//	cut              half a streamed answer, then the connection is closed
//	badjson          a streamed event that is not JSON
//	errmid           an error in the middle of a stream, where the API has one; otherwise as overloaded
//	maxtokens        an answer that was cut at its maximum
//	refusal          the model declines
//
// An answer that is not streamed has no middle: hangmid, cut and badjson are then as normal, and
// errmid is for Anthropic Messages and OpenAI Responses.
package fakemodel

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// controlledScenario is the name, in a path, of the scenario that SetScenario sets.
const controlledScenario = "@"

// keptRequests is the number of requests of a tag that /_requests returns.
const keptRequests = 50

// maxBody is the most bytes that a request may have, also after decompression.
const maxBody = 32 << 20

// A Server answers requests for language models. Its methods may be called concurrently.
type Server struct {
	started time.Time
	maxBody int64

	mu       sync.Mutex
	ledger   []Request
	observe  func(Request)
	requests int // answered or being answered, to number the ids of answers
	tags     map[string]*tagState
}

// tagState holds what the server knows of one tag.
type tagState struct {
	scenario string   // as set by SetScenario
	steps    scenario // of it; nil before
	taken    int      // steps that were taken
	received []received
}

// received is a request as it came. Headers have names in lower case.
type received struct {
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"`
}

// New returns a Server without requests, whose controlled scenarios are all "normal".
func New() *Server {
	return &Server{started: time.Now(), maxBody: maxBody, tags: map[string]*tagState{}}
}

// SetScenario sets the scenario of /s/@/TAG, and the next request gets its first step.
func (s *Server) SetScenario(tag, scenario string) error {
	steps, err := parseScenario(scenario)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.tag(tag)
	state.scenario, state.steps, state.taken = scenario, steps, 0
	return nil
}

// tag returns the state of a tag. The caller holds mu.
func (s *Server) tag(name string) *tagState {
	if s.tags[name] == nil {
		s.tags[name] = &tagState{}
	}
	return s.tags[name]
}

// take returns the step that answers the next request of a tag, and the scenario it is of. Without
// steps it is the scenario that SetScenario has set. A request on the side takes no step, and gets
// it only if it is a failure.
func (s *Server) take(tag, name string, steps scenario, side bool) (string, step) {
	normal := step{name: stepNormal, number: 1, times: 1}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.tag(tag)
	if steps == nil {
		if name, steps = state.scenario, state.steps; steps == nil {
			name, steps = stepNormal, scenario{normal}
		}
	}
	next := steps.at(state.taken)
	switch {
	case !side:
		state.taken++
	case !next.fails():
		next = normal
	}
	return name, next
}

// nextID returns a number for the ids of an answer.
func (s *Server) nextID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return s.requests
}

// keep saves a request for /_requests.
func (s *Server) keep(tag string, r received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.tag(tag)
	state.received = append(state.received, r)
	if extra := len(state.received) - keptRequests; extra > 0 {
		state.received = append([]received(nil), state.received[extra:]...)
	}
}

// ServeHTTP answers requests for a model below /s/, and those about the ledger and scenarios.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := escapedPath(r.URL)
	for _, route := range []struct {
		method, prefix string
		serve          func(http.ResponseWriter, *http.Request, string)
	}{
		{http.MethodGet, "/_ledger", s.serveLedger},
		{http.MethodGet, "/_requests/", s.serveRequests},
		{http.MethodPost, "/_ctl/", s.serveControl},
	} {
		rest, found := strings.CutPrefix(path, route.prefix)
		if found && r.Method == route.method && !strings.Contains(rest, "/") {
			if rest, err := url.PathUnescape(rest); err == nil {
				route.serve(w, r, rest)
				return
			}
		}
	}
	if x := s.exchange(w, r, path); x != nil {
		x.serve()
		return
	}
	reply(w, http.StatusNotFound, object{"error": "no such path; expected /s/SCENARIO/TAG/v1/..., " +
		"GET /_ledger, GET /_requests/TAG or POST /_ctl/TAG"}, nil)
}

// escapedPath returns the path of a URL as it came, so that an escaped slash separates nothing.
// URL.EscapedPath does not do that for a path with a character that should have been escaped, such
// as a brace: it escapes the decoded path again.
func escapedPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// serveLedger answers GET /_ledger.
func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request, _ string) {
	tag := r.URL.Query().Get("tag")
	if r.URL.Query().Get("sum") != "" {
		reply(w, http.StatusOK, s.Sums(tag), nil)
		return
	}
	reply(w, http.StatusOK, s.Ledger(tag), nil)
}

// serveRequests answers GET /_requests/TAG.
func (s *Server) serveRequests(w http.ResponseWriter, _ *http.Request, tag string) {
	all := []received{}
	s.mu.Lock()
	if state := s.tags[tag]; state != nil {
		all = append(all, state.received...)
	}
	s.mu.Unlock()
	reply(w, http.StatusOK, all, nil)
}

// serveControl answers POST /_ctl/TAG.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request, tag string) {
	body, refused := s.readBody(w, r)
	if refused != nil {
		reply(w, refused.status, object{"error": refused.Error()}, nil)
		return
	}
	text := strings.TrimSpace(string(body))
	if err := s.SetScenario(tag, text); err != nil {
		reply(w, http.StatusBadRequest, object{"error": err.Error()}, nil)
		return
	}
	reply(w, http.StatusOK, object{"tag": tag, "scenario": text}, nil)
}
