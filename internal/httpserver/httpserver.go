// Package httpserver serves HTTP on TCP addresses of this machine, with bounded connections, sizes and
// times, so that clients can never take up the files or the memory of the process.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Server serves a handler.
type Server struct {
	// Name says in the log what is served, such as "the web page".
	Name    string
	Handler http.Handler
	Logger  *slog.Logger
	// Hosts are host names under which requests are answered, next to localhost and all IP addresses. Every
	// other name is refused: it may belong to a page of somebody else, whose name was pointed at this machine
	// after it was loaded (DNS rebinding). With "*", all names are answered.
	Hosts []string
	// MaxConns is the maximum number of connections; 0 is 256. A new connection takes the place of one that
	// does not serve a request, and is closed if there is none.
	MaxConns int
	// Listening is called with nil each time the server has begun to listen, and with the error when it cannot;
	// it may be nil.
	Listening func(error)
}

const (
	defaultMaxConns = 256
	listenAgain     = 10 * time.Second // after the address could not be used
	headerTimeout   = 5 * time.Second  // for a client to send the headers
	// requestTimeout is the time for a client to send a request, and for it to read the answer. A handler that
	// streams sets deadlines of its own, by http.ResponseController.
	requestTimeout = 30 * time.Second
	idleTimeout    = time.Minute
	drainTimeout   = time.Second // for requests to end
	maxHeader      = 64 << 10    // bytes
)

// Run serves on an address until ctx ends. While the address cannot be used, as by another daemon, it logs
// that once and tries again every 10 s.
func (s *Server) Run(ctx context.Context, address string) {
	for told := false; ctx.Err() == nil; {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			if told {
				s.Logger.Info("serving "+s.Name, "address", address)
				told = false
			}
			err = s.Serve(ctx, l)
		}
		if err != nil && ctx.Err() == nil {
			s.listening(err)
		}
		if err != nil && ctx.Err() == nil && !told {
			s.Logger.Warn("cannot serve "+s.Name+"; trying again", "address", address, "error", err)
			told = true
		}
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
		}
	}
}

// Serve serves the clients of a listener until ctx ends, and then returns nil, or until the listener fails. It
// closes the listener. The contexts of requests end with ctx.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	maxConns := s.MaxConns
	if maxConns == 0 {
		maxConns = defaultMaxConns
	}
	limited := newLimiter(l, maxConns)
	h := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		// The handler answers all requests, also "OPTIONS *".
		DisableGeneralOptionsHandler: true,

		ConnState:   limited.state,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // anybody can fill a log with errors
	}
	s.listening(nil)
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-ended:
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if h.Shutdown(within) != nil {
			h.Close()
		}
	}()
	err := h.Serve(limited)
	close(ended)
	<-stopped
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s on %s: %w", s.Name, l.Addr(), err)
}

func (s *Server) listening(err error) {
	if s.Listening != nil {
		s.Listening(err)
	}
}

// serve answers a request, unless it is for a host that this server does not answer for. A panic ends only this
// request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // which net/http compares, too
				s.Logger.Error("a request has panicked", "request", r.Method+" "+r.URL.Path, "panic", v,
					"stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // so that half an answer is not taken for a whole one
		}
	}()
	if !s.answersFor(r.Host) {
		http.Error(w, fmt.Sprintf("%s is not served under the name %.100q: use localhost or an IP address", s.Name,
			r.Host), http.StatusMisdirectedRequest)
		return
	}
	s.Handler.ServeHTTP(w, r)
}

// answersFor reports whether the server answers requests for a host, which may have a port.
func (s *Server) answersFor(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(s.Hosts, "*") {
		return true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.ContainsFunc(s.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// hostname returns the name or the IP address of a host, in lower case, without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
