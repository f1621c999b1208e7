package fakemodel

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A dialect reads the requests of one API and writes its answers. It has no effects: the exchange
// sends what it returns.
type dialect interface {
	// read returns the prompt of a request.
	read(path string, body object) prompt
	// fail returns the failure for the step of the turn, or nil if the model answers.
	fail(t *turn) *failure
	// headers returns the headers of an answer.
	headers(t *turn) header
	// whole returns an answer that is not streamed.
	whole(t *turn, s said) any
	// stream returns an answer that is streamed in these words.
	stream(t *turn, s said, words []string) script
}

// A header holds values by the names of headers.
type header map[string]string

// A failure is an answer that is an error.
type failure struct {
	status  int
	headers header
	body    any
	events  []event // a stream, instead of a body
}

// A refusal says why a request has no answer at all.
type refusal struct {
	status int
	error
}

// An exchange is a request below /s/ and its answer.
type exchange struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	steps  scenario // nil if SetScenario sets them
	row    Request  // for the ledger
}

// exchange reads the path of a request below /s/. It returns nil if it is another.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, path string) *exchange {
	path, found := strings.CutPrefix(path, "/s/")
	parts := strings.SplitN(path, "/", 3)
	if !found || len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return nil
	}
	name, err1 := url.PathUnescape(parts[0])
	tag, err2 := url.PathUnescape(parts[1])
	if err1 != nil || err2 != nil {
		return nil
	}
	row := Request{Tag: tag, Scenario: name, Path: "/", Method: r.Method, Kind: KindOther}
	if len(parts) == 3 {
		row.Path += parts[2]
	}
	return &exchange{server: s, w: w, r: r, row: row}
}

// serve answers the request.
func (x *exchange) serve() {
	body, refused := x.server.readBody(x.w, x.r)
	if refused != nil {
		x.refuse(refused)
		return
	}
	if x.r.Method == http.MethodPost {
		x.keep(body)
	}
	if x.row.Scenario != controlledScenario {
		steps, err := parseScenario(x.row.Scenario)
		if err != nil {
			x.refuse(&refusal{http.StatusBadRequest, err})
			return
		}
		x.steps = steps
	}
	path := x.row.Path
	switch {
	case x.r.Method == http.MethodGet && strings.HasSuffix(path, "/api/oauth/usage"):
		x.servePlan()
	case x.r.Method != http.MethodPost:
		x.serveModels()
	case strings.HasSuffix(path, "/messages/count_tokens"), strings.HasSuffix(path, ":countTokens"):
		x.row.Kind = KindCount
		x.answer(http.StatusOK, object{"input_tokens": 1000, "totalTokens": 1000}, nil, Usage{})
	default:
		d := dialectOf(path)
		if d == nil {
			x.refuse(&refusal{http.StatusNotFound, errors.New("not found")})
			return
		}
		x.serveModel(d, body)
	}
}

// dialectOf returns the API that a path ends with, or nil.
func dialectOf(path string) dialect {
	for _, api := range []struct {
		end string
		dialect
	}{
		{"/messages", anthropic{}},
		{"/responses", responses{}},
		{"/chat/completions", chat{}},
		{":generateContent", gemini{}},
		{":streamGenerateContent", gemini{}},
	} {
		if strings.HasSuffix(path, api.end) {
			return api.dialect
		}
	}
	return nil
}

// serveModels answers a GET of .../models, and refuses all else.
func (x *exchange) serveModels() {
	if !strings.HasSuffix(strings.TrimRight(x.row.Path, "/"), "/models") {
		x.refuse(&refusal{http.StatusNotFound, errors.New("not found")})
		return
	}
	models := []any{}
	for _, id := range []string{"fake-model", "gpt-5", "claude-sonnet-4-5"} {
		models = append(models, object{"id": id, "object": "model", "type": "model", "display_name": id})
	}
	x.answer(http.StatusOK, object{"object": "list", "models": []any{}, "data": models}, nil, Usage{})
}

// serveModel answers a request for the model by a step of the scenario.
func (x *exchange) serveModel(d dialect, body []byte) {
	t := &turn{
		prompt: d.read(x.row.Path, decodeObject(body)), id: x.server.nextID(), tag: x.row.Tag,
		now: time.Now(), query: x.r.URL.Query(),
	}
	t.body = body
	x.row.Scenario, t.step = x.server.take(x.row.Tag, x.row.Scenario, x.steps, t.kind() == KindSide)
	t.usage = AnswerUsage()
	if t.step.name == stepNormal {
		t.usage = t.usage.times(t.step.number)
	}
	x.row.API, x.row.Model, x.row.Stream, x.row.Messages = t.api, t.model, t.stream, t.turns
	x.row.Kind, x.row.Step = t.kind(), t.step.String()
	if t.step.name == stepHang {
		x.note(0, Usage{}, false)
		x.awaitDisconnect()
		return
	}
	if f := d.fail(t); f != nil {
		x.fail(f)
		return
	}
	s := t.say()
	if t.stream {
		x.play(d, t, s)
		return
	}
	x.answer(http.StatusOK, d.whole(t, s), d.headers(t), t.usage)
}

// fail sends a failure.
func (x *exchange) fail(f *failure) {
	if f.events == nil {
		x.answer(f.status, f.body, f.headers, Usage{})
		return
	}
	x.note(f.status, Usage{}, true)
	openStream(x.w, f.headers).send(f.events...)
}

// refuse answers that the request is wrong, in the form that clients of most APIs show.
func (x *exchange) refuse(r *refusal) {
	kind := "invalid_request_error"
	if r.status == http.StatusNotFound {
		kind = "not_found_error"
	}
	x.answer(r.status, object{"type": "error", "error": object{"type": kind, "message": r.Error()}}, nil, Usage{})
}

// answer adds the request to the ledger and sends an answer that is not streamed.
func (x *exchange) answer(status int, body any, headers header, usage Usage) {
	x.note(status, usage, true)
	reply(x.w, status, body, headers)
}

// note adds the request to the ledger.
func (x *exchange) note(status int, usage Usage, sent bool) {
	x.row.Status, x.row.Usage, x.row.Sent = status, usage, sent
	x.server.record(x.row)
}

// keep saves the request for /_requests.
func (x *exchange) keep(body []byte) {
	r := received{Path: x.row.Path, Headers: map[string]string{"host": x.r.Host}, Body: object{}}
	for name, values := range x.r.Header {
		r.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	if json.Valid(body) {
		r.Body = json.RawMessage(body)
	}
	x.server.keep(x.row.Tag, r)
}

// awaitDisconnect returns when the client has disconnected.
func (x *exchange) awaitDisconnect() {
	<-x.r.Context().Done()
	x.disconnect()
}

// disconnect closes the connection in the middle of an answer.
func (x *exchange) disconnect() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return // a recorder of a test has no connection
	}
	_ = conn.Close()
}

// readBody reads the body of a request, decompressed.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	tooLarge := &refusal{http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", s.maxBody)}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, fmt.Errorf("reading the body: %w", err)}
	}
	if !strings.EqualFold(r.Header.Get("Content-Encoding"), "gzip") {
		return body, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(z, s.maxBody+1))
	}
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, fmt.Errorf("decompressing the body: %w", err)}
	}
	if int64(len(body)) > s.maxBody {
		return nil, tooLarge
	}
	return body, nil
}

// reply sends JSON.
func reply(w http.ResponseWriter, status int, body any, headers header) {
	text := encode(body)
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a client that has left needs no answer
}
