// Package web is the web page of a project: its fleet in a browser, live, and the means to act on it.
//
// The server renders every page with html/template, so all of it works without JavaScript. A small script keeps a
// page up to date by one stream of server-sent events, which carries the parts of the page that have changed. The
// server is a client of the daemon like any other: it may be a program of its own, and the daemon may come and go.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/store"
)

// Options are the parts and settings of a Server.
type Options struct {
	Client *api.Client // of the daemon; it must not act for an agent
	// ReadOnly keeps everybody from acting. Otherwise the link by which they came decides.
	ReadOnly bool
	// File is the configuration of the project.
	File string
	// By is the name of the person who acts; may be empty.
	By     string
	Logger *slog.Logger
	// Store keeps who is signed in for the server after this one; nil if everybody is signed out with this one.
	Store store.Store
	// Node is the name of this machine in a fleet, each of which serves the page; "" if there is no fleet.
	Node string
}

// Server is the web page of a project. New makes it.
type Server struct {
	Options
	host     string // of the page on a loopback address
	sessions *sessions
	pages    *pages
	assets   map[string]asset
	handler  http.Handler
	streams  chan struct{} // holds a token for each open stream

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	acting sync.WaitGroup
}

// New returns a Server. Close ends what it does.
func New(o Options) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		Options: o, host: newHost(), sessions: newSessions(time.Now), assets: loadAssets(),
		streams: make(chan struct{}, maxStreams), ctx: ctx, cancel: cancel,
	}
	s.pages = newPages(o.Client, o.File, newHub(ctx, o.Client), newTerminals(ctx, o.Client),
		parseTemplates(s.assets))
	s.handler = s.routes()
	if o.Store != nil {
		if err := s.sessions.load(ctx, o.Store, o.Node); err != nil {
			o.Logger.Warn("cannot read who was signed in to the web page; everybody is signed out", "error", err)
		}
	}
	return s
}

// Close ends streams and what pages have begun, such as actions that take long. The daemon carries on with those.
func (s *Server) Close() {
	s.cancel()
	s.pages.hub.close()
	s.pages.terminals.close()
	s.acting.Wait()
}

// NewLink returns the path of a page that lets one browser in, once, within 10 minutes.
func (s *Server) NewLink(readOnly bool) string {
	role := operator
	if readOnly || s.ReadOnly {
		role = reader
	}
	return "/login?" + url.Values{"link": {s.sessions.newLink(role)}}.Encode()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// routes returns the handler of everything.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{version}/{name}", s.serveAsset)
	mux.HandleFunc("GET /login", s.login)
	mux.Handle("GET /live", s.signedIn(s.live))
	mux.Handle("GET /confirm", s.signedIn(s.confirm))
	mux.Handle("GET /log/{path...}", s.signedIn(s.rawLog))
	mux.Handle("POST /logout", s.signedIn(s.logout))
	mux.Handle("POST /act", s.acts(s.act))
	mux.Handle("POST /do/{what}", s.acts(s.do))
	mux.Handle("POST /mail", s.acts(s.readMail))
	mux.Handle("POST /seen", s.acts(s.seen))
	mux.Handle("GET /", s.signedIn(s.servePage))
	return secure(http.NewCrossOriginProtection().Handler(mux))
}

// policy is the Content-Security-Policy: nothing but the files of this server, and no script or style within pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// secure adds the headers that keep other pages away from those of this server.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// handlerFunc handles a request of somebody who is signed in.
type handlerFunc func(w http.ResponseWriter, r *http.Request, who visitor)

// signedIn lets a handler answer those who are signed in, and tells others how to.
func (s *Server) signedIn(next handlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.sessions.of(r)
		if s.ReadOnly {
			who.role = reader // also if he has signed in before that
		}
		if !ok {
			s.refuse(w, http.StatusUnauthorized, "You are not signed in",
				"Get a link that lets this browser in with: coppice web --open")
			return
		}
		next(w, r, who)
	})
}

// maxForm bounds the body of a form, in bytes.
const maxForm = 1 << 20

// acts is signedIn for handlers that change something.
func (s *Server) acts(next handlerFunc) http.Handler {
	return s.signedIn(func(w http.ResponseWriter, r *http.Request, who visitor) {
		if who.role != operator {
			s.refuse(w, http.StatusForbidden, "This page is read-only",
				"Whoever may act gets a link with: coppice web --open")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			s.refuse(w, http.StatusBadRequest, "The form cannot be read", err.Error())
			return
		}
		next(w, r, who)
	})
}

// seen tells the daemon that somebody who may act looks at a page that shows what needs people.
func (s *Server) seen(w http.ResponseWriter, r *http.Request, _ visitor) {
	if _, err := notify.Look.Call(r.Context(), s.Client, api.None{}); err != nil {
		s.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// login exchanges a link for a session.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	ok, err := s.sessions.begin(w, r)
	if err != nil {
		s.Logger.Warn("cannot keep who has signed in to the web page", "error", err)
	}
	if !ok {
		s.refuse(w, http.StatusUnauthorized, "This link is not valid",
			"A link works once, for 10 minutes. Get another one with: coppice web --open")
		return
	}
	// A redirect would not send the cookie if the link was in a page or a mail.
	s.render(w, r, http.StatusOK, "entered", layout{Title: "Signed in"})
}

// logout ends a session.
func (s *Server) logout(w http.ResponseWriter, r *http.Request, _ visitor) {
	if err := s.sessions.end(w, r); err != nil {
		s.refuse(w, http.StatusInternalServerError, "You are signed out until the page is served anew",
			"This could not be written: "+err.Error()+". Sign out everybody with: coppice web --sign-out")
		return
	}
	s.refuse(w, http.StatusOK, "You are signed out", "Get a link with: coppice web --open")
}

// refuse answers with a page that says why there is nothing else.
func (s *Server) refuse(w http.ResponseWriter, status int, title, text string) {
	s.render(w, nil, status, "message", layout{Title: title, Data: text})
}

// fail answers with a page for an error of the daemon.
func (s *Server) fail(w http.ResponseWriter, err error) {
	status, title := http.StatusInternalServerError, "This did not work"
	switch {
	case errors.Is(err, api.ErrDown), errors.Is(err, api.ErrLost), errors.Is(err, api.ErrStopping):
		status, title = http.StatusServiceUnavailable, "The daemon does not answer"
	case errors.Is(err, api.ErrNotFound):
		status, title = http.StatusNotFound, "There is no such thing"
	case errors.Is(err, api.ErrInvalid):
		status, title = http.StatusBadRequest, "The request is not valid"
	case errors.Is(err, api.ErrConflict):
		status, title = http.StatusConflict, "That is not possible now"
	case errors.Is(err, api.ErrUnauthorized):
		status, title = http.StatusForbidden, "That is not allowed"
	}
	s.refuse(w, status, title, err.Error())
}
