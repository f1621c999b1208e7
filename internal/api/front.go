package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/token"
)

// Front serves the clients of a node of a fleet. It passes their requests on to the controller, which may be on
// another node, and says whose they are: only the node itself knows its processes. See Server.ServeForwarded.
type Front struct {
	processes Processes
	logger    *slog.Logger
	timeouts  timeouts
	limits    limits
	local     atomic.Pointer[Server] // see Answer
	proxy     *httputil.ReverseProxy
}

// NewFront returns a Front. to reaches the controller, whichever host the URL of a request names. Its error wraps
// ErrNoController if there is none; after any other error the controller may have carried out the request.
func NewFront(p Processes, to http.RoundTripper, logger *slog.Logger) *Front {
	f := &Front{processes: p, logger: logger, timeouts: defaultTimeouts(), limits: defaultLimits()}
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "controller"
			r.Out.Header.Set(originHeader, originOfRequest(r.In).header(r.In))
		},
		Transport:     to,
		FlushInterval: -1, // at once: the messages of streams are small
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ErrorHandler:  f.failed,
	}
	return f
}

// originHeader says whose a forwarded request is. A Front replaces what a client has sent.
const originHeader = "Coppice-Origin"

// sentOrigin is the content of the header, in JSON.
type sentOrigin struct {
	PID     int    `json:"pid,omitempty"`
	Agent   bool   `json:"agent,omitempty"` // it belongs to an agent
	Path    string `json:"path,omitempty"`  // of the agent, if that is known
	Unknown bool   `json:"unknown,omitempty"`
	Order   string `json:"order,omitempty"` // the order whose run it belongs to
}

const maxOrigin = 2 * maxPath // bytes of the header

// header returns the origin as a header of a request. The order is only looked up if it may matter.
func (o origin) header(r *http.Request) string {
	sent := sentOrigin{PID: o.pid, Agent: o.agent != nil, Unknown: o.unknown}
	if o.agent != nil {
		sent.Path = o.agent.Path
	}
	if o.run != nil && r.Method != http.MethodGet && r.Header.Get("Authorization") == "" {
		sent.Order = o.run()
	}
	text, _ := json.Marshal(sent) // of strings and numbers
	return string(text)
}

// parseOrigin reads the header of a request that a node has sent.
func parseOrigin(text string) (origin, error) {
	var sent sentOrigin
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if text == "" || len(text) > maxOrigin || d.Decode(&sent) != nil || d.More() || sent.PID < 0 {
		return origin{}, fmt.Errorf("%w: the header %s is %.100q; expected the origin of the request", ErrInvalid,
			originHeader, text)
	}
	o := origin{pid: sent.PID, unknown: sent.Unknown}
	if sent.Agent {
		o.agent = &token.Caller{Path: sent.Path}
	}
	if sent.Order != "" {
		o.run = func() string { return sent.Order }
	}
	return o, nil
}

// originOfRequest returns whose a request on the socket of a Front is.
func originOfRequest(r *http.Request) origin {
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	return conn.origin()
}

// Serve serves clients of the listener until ctx ends. It returns nil then, and otherwise the error of the listener.
func (f *Front) Serve(ctx context.Context, l net.Listener) error {
	g := newGate(l, f.processes, f.limits)
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	h := newHTTPServer(base, f, g, f.timeouts, f.logger)
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		cancel()
		drain, cancelDrain := context.WithTimeout(context.Background(), f.timeouts.drain)
		defer cancelDrain()
		if h.Shutdown(drain) != nil {
			h.Close()
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

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if conn, _ := r.Context().Value(connectionKey{}).(*connection); conn != nil && conn.refused != "" {
		respondFailure(w, conn.refused)
		return
	}
	if local := f.local.Load(); local != nil && local.has(r.URL.Path) {
		local.ServeHTTP(w, r)
		return
	}
	f.proxy.ServeHTTP(w, r)
}

// Answer has the routes of a server be answered by this node, from now on.
func (f *Front) Answer(local *Server) { f.local.Store(local) }

// has reports whether a feature has registered routes at a path.
func (s *Server) has(path string) bool {
	return path != descriptionPath && slices.ContainsFunc(s.routes, func(rt *route) bool { return rt.path == path })
}

// failed answers a request that did not reach the controller, or whose answer was cut off.
func (f *Front) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrNoController) {
		respondFailure(w, err)
		return
	}
	f.logger.Debug("a request was not answered by the controller", "request", r.URL.Path, "error", err)
	panic(http.ErrAbortHandler) // the client finds that it does not know whether it was carried out
}

// NoController returns an ErrNoController with the reason.
func NoController(why string) error {
	return NewError(ErrNoController, ErrNoController.Error()+": "+why)
}

// RespondNoController answers a request on a node that is not the controller.
func RespondNoController(w http.ResponseWriter, why string) { respondFailure(w, NoController(why)) }

// respondFailure answers with an error outside of a Server.
func respondFailure(w http.ResponseWriter, err error) {
	status, failure := failure(err)
	text, _ := marshal(failure) // of strings
	h := w.Header()
	h.Set(versionHeader, Version)
	h.Set("Content-Type", "application/json")
	h.Set("Connection", "close") // the body may not have been read
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}

// ServeForwarded answers requests that Fronts pass on, until ctx ends. It calls mount with the handler, which
// believes what they say of the origin, and at the end with nil. Then it ends streams with the cause of ctx, if that
// is an ErrStopping, or else with ErrStopping, and gives requests 5 s to finish.
func (s *Server) ServeForwarded(ctx context.Context, mount func(http.Handler)) {
	serving, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(ErrStopping)
	var mu sync.Mutex // orders the beginning of requests and the end
	var requests sync.WaitGroup
	over := false
	g := newGate(nil, s.access, s.limits)
	mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if over {
			mu.Unlock()
			s.handler(func(*call) error { return ErrNoController }).ServeHTTP(w, r)
			return
		}
		requests.Add(1)
		mu.Unlock()
		defer requests.Done()
		from, err := parseOrigin(r.Header.Get(originHeader))
		if err != nil {
			s.handler(func(*call) error { return err }).ServeHTTP(w, r)
			return
		}
		requestCtx, cancelRequest := context.WithCancelCause(r.Context())
		defer cancelRequest(nil)
		stop := context.AfterFunc(serving, func() { cancelRequest(context.Cause(serving)) })
		defer stop()
		conn := &connection{gate: g, from: from}
		s.ServeHTTP(w, r.WithContext(context.WithValue(requestCtx, connectionKey{}, conn)))
	}))
	<-ctx.Done()
	mount(nil)
	mu.Lock()
	over = true
	mu.Unlock()
	why := ErrStopping
	if cause := context.Cause(ctx); errors.Is(cause, ErrStopping) {
		why = cause
	}
	cancel(why)
	finished := make(chan struct{})
	go func() {
		requests.Wait()
		s.attached.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(s.timeouts.drain):
	}
}
