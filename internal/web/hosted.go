package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/httpserver"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// Routes for the page that the daemon serves.
var (
	// MakeLink makes a link to the page of the daemon.
	MakeLink = api.Route[LinkRequest, Link]{
		Method: http.MethodPost, Path: "/web/links", For: api.People,
		ID: "makeWebLink", Summary: "Make a link to the web page",
		Doc:     "It lets one browser in, once, within 10 minutes.",
		Returns: "The link; \"not found\" if the daemon serves no page.",
	}
	// SignOut signs all browsers out.
	SignOut = api.Route[api.None, SignedOut]{
		Method: http.MethodDelete, Path: "/web/sessions", For: api.People,
		ID: "signOutOfWeb", Summary: "Sign all browsers out of the web page",
		Doc:     "Links that were not used yet become invalid.",
		Returns: "How many were signed in; \"not found\" if the daemon serves no page.",
	}
)

// LinkRequest says what a link is for.
type LinkRequest struct {
	_        struct{} `schema:"WebLinkRequest" doc:"What a link is for."`
	ReadOnly bool     `json:"read_only,omitempty" doc:"Whether the browser may only look."`
}

// Link lets a browser in.
type Link struct {
	_        struct{} `schema:"WebLink" doc:"A link that lets one browser in."`
	URL      string   `json:"url" doc:"Whoever has it gets in."`
	ReadOnly bool     `json:"read_only" doc:"Whether the browser may only look."`
}

// SignedOut says who was signed out.
type SignedOut struct {
	_        struct{} `schema:"WebSignedOut" doc:"Who was signed out."`
	Browsers int      `json:"browsers" minimum:"0" doc:"How many browsers were signed in."`
}

// Hosted is the page of a project as its daemon serves it. Host makes it.
type Hosted struct {
	settings spec.Web
	client   *api.Client
	page     *Server // nil if there is none
	at       *net.TCPAddr

	mu  sync.Mutex
	err error // why it is not served now
}

// Host returns the page for the settings of a daemon, which may want none. Run serves it, and closes the client.
func Host(w spec.Web, o Options) *Hosted {
	h := &Hosted{settings: w, client: o.Client}
	at, err := netip.ParseAddrPort(w.Listen)
	if err != nil {
		h.err = api.NewError(api.ErrNotFound, "the daemon serves no web page: coppice.toml has no [web] listen")
		return h
	}
	o.ReadOnly = w.ReadOnly || !at.Addr().IsLoopback()
	h.page, h.at, h.err = New(o), net.TCPAddrFromAddrPort(at), errStarting
	return h
}

var errStarting = api.NewError(api.ErrStopping, "the daemon is starting")

// Run serves the page until ctx ends. Call it once.
func (h *Hosted) Run(ctx context.Context) {
	defer h.client.Close()
	if h.page == nil {
		return
	}
	defer h.page.Close()
	server := httpserver.Server{
		Name: "the web page", Handler: h.page, Hosts: h.settings.Hosts, Logger: h.page.Logger,
		Listening: func(err error) {
			if err != nil {
				err = fmt.Errorf("%w: the web page is not served: %w", api.ErrConflict, err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.err = err
		},
	}
	server.Run(ctx, h.settings.Listen)
}

// Register adds the handlers of all routes to a server.
func (h *Hosted) Register(s *api.Server) {
	MakeLink.Handle(s, func(_ context.Context, _ token.Caller, r LinkRequest) (Link, error) {
		if err := h.served(); err != nil {
			return Link{}, err
		}
		return Link{URL: h.page.URL(h.at) + h.page.NewLink(r.ReadOnly), ReadOnly: r.ReadOnly || h.page.ReadOnly}, nil
	})
	SignOut.Handle(s, func(ctx context.Context, _ token.Caller, _ api.None) (SignedOut, error) {
		if h.page == nil {
			return SignedOut{}, h.served()
		}
		n, err := h.page.sessions.endAll(ctx)
		return SignedOut{Browsers: n}, err
	})
}

// served returns why the page is not served; nil if it is.
func (h *Hosted) served() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
