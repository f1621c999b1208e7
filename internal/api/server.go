package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// Version is that of the protocol: the first segment of each URL is "v" and
// this, and each answer has it in the header Coppice-Api.
const Version = "1"

const versionHeader = "Coppice-Api"

// pace is how long a server waits for its clients.
type pace struct {
	begin     time.Duration // until a stream that has nothing to say shows that it is one
	heartbeat time.Duration // between signs of life on a stream
	write     time.Duration // for a client to take what is written, or it is cut off
	header    time.Duration // for a client to send a request without its body
	body      time.Duration // for a client to send a body
	drain     time.Duration // for requests to end when the server does
}

func defaultPace() pace {
	return pace{
		begin: 100 * time.Millisecond, heartbeat: heartbeat, write: 30 * time.Second,
		header: 5 * time.Second, body: 10 * time.Second, drain: 5 * time.Second,
	}
}

// heartbeat is known to both sides: a client that hears nothing for three of
// them looks for another connection.
const heartbeat = 15 * time.Second

// server is the handler.
type server struct {
	service  Daemon
	logger   *slog.Logger
	pace     pace
	room     room
	routes   []route
	attached sync.WaitGroup // connections that http.Server does not know any more
}

// NewHandler returns the daemon's side of the protocol. It checks nobody's
// identity: that is Listen's. Serve is more convenient.
func NewHandler(s Daemon) http.Handler { return newServer(s, slog.Default(), defaultPace()) }

func newServer(s Daemon, logger *slog.Logger, p pace) *server {
	return &server{service: s, logger: logger, pace: p, room: defaultRoom(), routes: routes()}
}

// Serve answers clients of the listener until ctx ends. Then streams are ended
// with ErrStopping, requests get 5 s to end, and the listener is closed. The
// error is that of the listener, nil if it was ctx that ended.
func Serve(ctx context.Context, l net.Listener, s Daemon, logger *slog.Logger) error {
	return newServer(s, logger, defaultPace()).serve(ctx, l)
}

func (s *server) serve(ctx context.Context, l net.Listener) error {
	return s.serveBy(ctx, newGate(l, s.service, s.room))
}

// serveBy serves the connections that a gate lets in.
func (s *server) serveBy(ctx context.Context, g *gate) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrStopping)
	h := &http.Server{
		Handler:           s,
		ConnContext:       remember,
		ConnState:         g.state,
		ReadHeaderTimeout: s.pace.header,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader - 4096, // net/http adds that
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		cancel(ErrStopping)
		patience, enough := context.WithTimeout(context.Background(), s.pace.drain)
		defer enough()
		if h.Shutdown(patience) != nil {
			h.Close()
		}
		attached := make(chan struct{})
		go func() {
			s.attached.Wait()
			close(attached)
		}()
		select {
		case <-attached:
		case <-patience.Done():
		}
	}()
	err := h.Serve(g)
	close(ended)
	<-stopped
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving on %s: %w", g.Addr(), err)
}

// route is one thing that can be asked. The description is held against it.
type route struct {
	method, path string
	params       []param
	agent        bool // for agents, which have to prove who they are; else for people, and for agents to read
	body         any  // a value of the type that must be sent; nil: nothing may be
	answer       any  // a value of the type of the answer, or of the messages of a stream; nil: none
	stream       bool
	stays        bool  // it may take as long as a stream
	maxBody      int64 // bytes; maxBody if 0
	serve        func(*call) error
}

func routes() []route {
	path := param{name: "path", kind: "string"}
	thePath := param{name: "path", kind: "string", required: true}
	follow := param{name: "follow", kind: "boolean"}
	all := []route{
		{method: "GET", path: "/v1/openapi.json", serve: (*call).description},
		{method: "GET", path: "/v1/status", answer: Status{}, serve: (*call).status},
		{method: "GET", path: "/v1/nodes", params: []param{path}, answer: []Node{}, serve: (*call).nodes},
		{method: "GET", path: "/v1/explain", params: []param{thePath}, answer: Explanation{}, serve: (*call).explain},
		{method: "GET", path: "/v1/events", stream: true, answer: event.Event{}, serve: (*call).events, params: []param{
			{name: "after", kind: "integer"}, {name: "epoch", kind: "string"}, {name: "last", kind: "integer"}, {name: "type", kind: "string", repeated: true}, path, follow}},
		{method: "GET", path: "/v1/logs", stream: true, answer: LogLine{}, serve: (*call).logs, params: []param{
			{name: "path", kind: "string", repeated: true}, {name: "n", kind: "integer"}, {name: "since", kind: "string"},
			{name: "grep", kind: "string"}, {name: "after", kind: "string", repeated: true}, follow}},
		{method: "POST", path: "/v1/act", body: ActRequest{}, answer: Acted{}, serve: (*call).act},
		{method: "POST", path: "/v1/down", body: DownRequest{}, serve: (*call).down},
		{method: "POST", path: "/v1/attach", params: []param{thePath, {name: "watch", kind: "boolean"}}, stays: true, serve: (*call).attach},
	}
	return slices.Concat(all, agentRoutes(), outcomeRoutes(), mailRoutes(), askingRoutes(), beliefRoutes(), vitalsRoutes(), drainRoutes(), patrolRoutes(), taskRoutes(), orderRoutes(), farewellRoutes(), fireRoutes(), unfinishedRoutes())
}

// call is one request on its way.
type call struct {
	*server
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	route  route
	query  query
	caller Caller // of a route for agents
	begun  bool   // an answer is on its way
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{server: s, w: w, r: r, rc: http.NewResponseController(w)}
	defer c.recover()
	w.Header().Set(versionHeader, Version)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := c.handle(); err != nil {
		c.fail(err)
	}
}

func (c *call) handle() error {
	if conn := c.connection(); conn != nil && conn.refused != "" {
		c.w.Header().Set("Connection", "close")
		return conn.refused
	}
	// A body that never comes must hold nobody up, not even where nobody asked for one.
	c.rc.SetReadDeadline(time.Now().Add(c.pace.body))
	rt, err := c.find()
	if err == nil {
		err = c.refuse(rt)
	}
	if err == nil {
		c.route = rt
		err = c.authenticate(rt)
	}
	if err != nil {
		return err
	}
	if rt.body == nil && c.r.ContentLength != 0 {
		return fmt.Errorf("%w: %s %s takes no body", ErrInvalid, rt.method, rt.path)
	}
	if c.query, err = parseQuery(c.r.URL.RawQuery, rt.params); err != nil {
		return err
	}
	if rt.body == nil {
		// From here on a pending read only tells when the client goes away.
		c.rc.SetReadDeadline(time.Time{})
	}
	if rt.stream || rt.stays {
		release, err := c.holds()
		if err != nil {
			return err
		}
		defer release()
	}
	return rt.serve(c)
}

func (c *call) find() (route, error) {
	var methods []string
	for _, rt := range c.routes {
		if rt.path == c.r.URL.Path {
			if rt.method == c.r.Method {
				return rt, nil
			}
			methods = append(methods, rt.method)
		}
	}
	if len(methods) > 0 {
		c.w.Header().Set("Allow", strings.Join(methods, ", "))
		return route{}, &unsupported{http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, not %.20q", c.r.URL.Path, strings.Join(methods, ", "), c.r.Method)}
	}
	return route{}, &unsupported{http.StatusNotFound, fmt.Sprintf("this daemon has no %.100q; it speaks version %s, see /v1/openapi.json", c.r.URL.Path, Version)}
}

// recover turns a panic of the service into a failure of this one request.
func (c *call) recover() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	c.logger.Error("a request has panicked", "request", c.r.Method+" "+c.r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	if c.begun {
		panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
	}
	c.fail(errors.New("internal error of the daemon; its log says more"))
}

// fail answers with an error, if an answer is still possible.
func (c *call) fail(err error) {
	if c.begun {
		panic(http.ErrAbortHandler)
	}
	if c.r.Context().Err() != nil {
		err = c.ended(err)
	}
	status, f := failure(err)
	if c.r.ContentLength != 0 {
		c.w.Header().Set("Connection", "close") // whatever of the body was not read
	}
	c.write(status, f)
}

// ended replaces the error of a request whose context has ended by the reason for that.
func (c *call) ended(err error) error {
	if cause := context.Cause(c.r.Context()); cause == ErrStopping {
		return ErrStopping
	}
	return err
}

func (c *call) answer(v any) error {
	c.write(http.StatusOK, v)
	return nil
}

func (c *call) write(status int, v any) {
	data, err := marshal(v)
	if err != nil { // a number that JSON has not
		c.logger.Error("an answer cannot be JSON", "request", c.r.URL.Path, "error", err)
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON","code":"internal"}`)
	}
	c.begun = true
	c.rc.SetWriteDeadline(time.Now().Add(c.pace.write))
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	c.w.Write(append(data, '\n'))
}

// marshal is json.Marshal, and leaves values as they were written: what is of
// harm in HTML is none here.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// body reads the body of the request, and lets it take its time afterwards.
func (c *call) body(into any) error {
	if err := readBody(c.w, c.r, cmp.Or(c.route.maxBody, maxBody), into); err != nil {
		return err
	}
	return c.rc.SetReadDeadline(time.Time{})
}

func (c *call) description() error {
	c.begun = true
	c.rc.SetWriteDeadline(time.Now().Add(c.pace.write))
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Write(Description())
	return nil
}

func (c *call) status() error {
	st, err := c.service.Status(c.r.Context())
	if err != nil {
		return err
	}
	if st.Summary == nil {
		st.Summary = map[string]int{}
	}
	return c.answer(st)
}

func (c *call) nodes() error {
	nodes, err := c.service.Nodes(c.r.Context(), c.query.text("path"))
	if err != nil {
		return err
	}
	return c.answer(orEmpty(nodes))
}

func (c *call) explain() error {
	x, err := c.service.Explain(c.r.Context(), c.query.text("path"))
	if err != nil {
		return err
	}
	x.Evidence, x.History, x.Tail, x.Claims = orEmpty(x.Evidence), orEmpty(x.History), orEmpty(x.Tail), orEmpty(x.Claims)
	return c.answer(x)
}

// orEmpty makes sure that no list is null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *call) act() error {
	var req ActRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if req.Path == "" {
		return fmt.Errorf("%w: path is missing", ErrInvalid)
	}
	if err := checkText(req.Path); err != nil {
		return fmt.Errorf("%w: path %w", ErrInvalid, err)
	}
	if !slices.Contains(Actions(), req.Action) {
		return fmt.Errorf("%w: action is %.100q, expected one of %v", ErrInvalid, req.Action, Actions())
	}
	done, err := c.service.Act(c.r.Context(), req.Path, req.Action)
	if err != nil {
		return err
	}
	done.Already = orEmpty(done.Already)
	return c.answer(done)
}

func (c *call) down() error {
	var req DownRequest
	if err := c.body(&req); err != nil {
		return err
	}
	if err := c.service.Down(c.r.Context(), req.Keep); err != nil {
		return err
	}
	return c.done()
}

// done answers that there is nothing more to say.
func (c *call) done() error {
	c.begun = true
	c.rc.SetWriteDeadline(time.Now().Add(c.pace.write))
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
