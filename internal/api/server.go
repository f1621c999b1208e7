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
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/token"
)

// Version is the version of the protocol. The first segment of each URL is "v" and the version,
// and each answer has it in the header Coppice-Api.
const Version = "1"

// descriptionPath is the path of the description.
const descriptionPath = "/v1/openapi.json"

const versionHeader = "Coppice-Api"

// timeouts are the timeouts of a server.
type timeouts struct {
	begin     time.Duration // before a silent stream sends its headers
	heartbeat time.Duration // between keep-alive comments on a stream
	write     time.Duration // for a client to read what is written
	header    time.Duration // for a client to send the headers
	body      time.Duration // for a client to send the body
	drain     time.Duration // for requests to end when the server stops
}

func defaultTimeouts() timeouts {
	return timeouts{
		begin: 100 * time.Millisecond, heartbeat: heartbeat, write: 30 * time.Second,
		header: 5 * time.Second, body: 10 * time.Second, drain: 5 * time.Second,
	}
}

// heartbeat is the keep-alive interval of streams. A client that receives nothing for three
// intervals reconnects.
const heartbeat = 15 * time.Second

// Server serves the routes that are registered with it. All routes must be registered before it
// serves.
type Server struct {
	access      Access // nil in a local server
	logger      *slog.Logger
	timeouts    timeouts
	limits      limits
	mux         *http.ServeMux
	routes      []*route
	local       bool           // no daemon runs: routes that are not registered need one
	attached    sync.WaitGroup // hijacked connections
	description func() []byte
}

// NewServer returns a server whose only route is its description.
func NewServer(a Access, logger *slog.Logger) *Server {
	s := &Server{
		access: a, logger: logger, timeouts: defaultTimeouts(), limits: defaultLimits(), mux: http.NewServeMux(),
	}
	s.description = sync.OnceValue(s.describe)
	s.mux.Handle("/", s.handler((*call).notFound))
	s.add(&route{method: http.MethodGet, path: descriptionPath, serve: func(c *call) error {
		c.respond(http.StatusOK, s.Description())
		return nil
	}})
	return s
}

// Serve serves clients of the listener until ctx ends. Then it ends streams with ErrStopping,
// gives requests 5 s to finish, and closes the listener. It returns nil if ctx ended, and
// otherwise the error of the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serveBy(ctx, newGate(l, s.access, s.limits))
}

// serveBy serves the connections that a gate admits.
func (s *Server) serveBy(ctx context.Context, g *gate) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrStopping)
	h := newHTTPServer(base, s, g, s.timeouts, s.logger)
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		cancel(ErrStopping)
		drainCtx, cancelDrain := context.WithTimeout(context.Background(), s.timeouts.drain)
		defer cancelDrain()
		if h.Shutdown(drainCtx) != nil {
			h.Close()
		}
		attached := make(chan struct{})
		go func() {
			s.attached.Wait()
			close(attached)
		}()
		select {
		case <-attached:
		case <-drainCtx.Done():
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

// newHTTPServer returns a server of the connections that a gate admits. The contexts of requests end with base.
func newHTTPServer(base context.Context, h http.Handler, g *gate, t timeouts, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ConnContext:       withConnection,
		ConnState:         g.state,
		ReadHeaderTimeout: t.header,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader - 4096, // net/http adds that
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
}

// call is the handling of one request.
type call struct {
	*Server
	w         http.ResponseWriter
	r         *http.Request
	rc        *http.ResponseController
	route     *route
	query     query
	caller    token.Caller // set for routes for agents
	responded bool         // an answer was started
}

// add registers a route.
func (s *Server) add(rt *route) {
	if !slices.ContainsFunc(s.routes, func(other *route) bool { return other.path == rt.path }) {
		s.mux.Handle(rt.path, s.handler((*call).wrongMethod))
	}
	s.routes = append(s.routes, rt)
	s.mux.Handle(rt.method+" "+rt.path, s.handler(func(c *call) error { return c.serve(rt) }))
}

// handler returns an http.Handler that handles a request with serve.
func (s *Server) handler(serve func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Server: s, w: w, r: r, rc: http.NewResponseController(w)}
		defer c.recover()
		w.Header().Set(versionHeader, Version)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		err := c.checkAdmitted()
		if err == nil {
			err = serve(c)
		}
		if err != nil {
			c.fail(err)
		}
	})
}

// ServeHTTP handles a request. It does not check the origin of the connection: Serve does that
// for those it accepts.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p { // which the mux would redirect
		s.handler((*call).notFound).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// checkAdmitted refuses a request on a connection that exceeds a limit.
func (c *call) checkAdmitted() error {
	if conn := c.connection(); conn != nil && conn.refused != "" {
		c.w.Header().Set("Connection", "close")
		return conn.refused
	}
	// A body that never arrives must not block anything, even if none is expected.
	c.rc.SetReadDeadline(time.Now().Add(c.timeouts.body))
	return nil
}

// serve authenticates the caller, checks the request, and handles it.
func (c *call) serve(rt *route) (err error) {
	if c.r.Method != rt.method { // HEAD, which the mux treats as GET
		return c.wrongMethod()
	}
	c.route = rt
	if err := c.authenticate(rt); err != nil {
		return err
	}
	if rt.body == nil && c.r.ContentLength != 0 {
		return fmt.Errorf("%w: %s %s takes no body", ErrInvalid, rt.method, rt.path)
	}
	if c.query, err = parseQuery(c.r.URL.RawQuery, c.r.Header, rt.params); err != nil {
		return err
	}
	if rt.body == nil {
		// From here on a pending read only detects that the client disconnects.
		c.rc.SetReadDeadline(time.Time{})
	}
	if rt.stream || rt.longRunning {
		release, err := c.reserveStream()
		if err != nil {
			return err
		}
		defer release()
	}
	return rt.serve(c)
}

// notFound fails a request whose path has no route.
func (c *call) notFound() error {
	if c.local {
		return fmt.Errorf("%w here; start it with: coppice up -d", ErrDown)
	}
	return &unsupported{http.StatusNotFound,
		fmt.Sprintf("this daemon has no %.100q; it speaks version %s, see /v1/openapi.json",
			c.r.URL.Path, Version)}
}

// wrongMethod fails a request whose method has no route.
func (c *call) wrongMethod() error {
	if c.local {
		return c.notFound()
	}
	var methods []string
	for _, rt := range c.routes {
		if rt.path == c.r.URL.Path {
			methods = append(methods, rt.method)
		}
	}
	allowed := strings.Join(methods, ", ")
	c.w.Header().Set("Allow", allowed)
	message := fmt.Sprintf("%s takes %s, not %.20q", c.r.URL.Path, allowed, c.r.Method)
	return &unsupported{http.StatusMethodNotAllowed, message}
}

// recover turns a panic of a handler into a failure of this one request.
func (c *call) recover() {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	c.logger.Error("a request has panicked", "request", c.r.Method+" "+c.r.URL.Path, "panic", v, "stack",
		string(debug.Stack()))
	if c.responded {
		panic(http.ErrAbortHandler) // the client must not mistake half an answer for a whole one
	}
	c.fail(errors.New("internal error of the daemon; its log says more"))
}

// fail answers with an error, if an answer is still possible.
func (c *call) fail(err error) {
	if c.responded {
		panic(http.ErrAbortHandler)
	}
	if c.r.Context().Err() != nil {
		err = c.ended(err)
	}
	status, f := failure(err)
	if c.r.ContentLength != 0 {
		c.w.Header().Set("Connection", "close") // the body may not have been read
	}
	c.write(status, f)
}

// ended returns ErrStopping for a request that ended because the server stops, and err otherwise.
func (c *call) ended(err error) error {
	if cause := context.Cause(c.r.Context()); errors.Is(cause, ErrStopping) {
		return cause
	}
	return err
}

// write answers with a value as JSON.
func (c *call) write(status int, v any) {
	data, err := marshal(v)
	if err != nil { // such as NaN
		c.logger.Error("an answer cannot be JSON", "request", c.r.URL.Path, "error", err)
		status, data = http.StatusInternalServerError,
			[]byte(`{"error":"the answer cannot be written as JSON","code":"internal"}`)
	}
	c.respond(status, append(data, '\n'))
}

// respond answers with JSON, or without a body if data is nil.
func (c *call) respond(status int, data []byte) {
	c.responded = true
	c.rc.SetWriteDeadline(time.Now().Add(c.timeouts.write))
	if data != nil {
		c.w.Header().Set("Content-Type", "application/json")
	}
	c.w.WriteHeader(status)
	c.w.Write(data)
}

// marshal is json.Marshal without escaping HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// body reads the body of the request, and removes the read deadline.
func (c *call) body(into any) error {
	if err := readBody(c.w, c.r, cmp.Or(c.route.maxBody, maxBody), into); err != nil {
		return err
	}
	return c.rc.SetReadDeadline(time.Time{})
}
