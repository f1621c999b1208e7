package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// checkTimeout bounds the time of a check.
const checkTimeout = 5 * time.Second

// check is a part of the health of the daemon.
type check struct {
	name string
	err  error // why it fails, or nil
}

// serveLive answers whether the daemon should be replaced: it does not, as long as its root supervisor answers.
func (m *Metrics) serveLive(w http.ResponseWriter, r *http.Request) {
	writeChecks(w, r, "livez", []check{m.checkRoot(r.Context())})
}

// serveReady answers whether the fleet is as the file wants it, as far as that is the daemon's work.
func (m *Metrics) serveReady(w http.ResponseWriter, r *http.Request) {
	all := []check{
		m.checkRoot(r.Context()), {"store", m.o.Writable()}, {"reconcile", m.o.Stalled()},
		{name: "starts"}, {name: "stopping"},
	}
	if !m.started.Load() {
		all[3].err = errors.New("not all agents were adopted or started yet")
	}
	if m.isStopping() {
		all[4].err = errors.New("the daemon stops")
	}
	writeChecks(w, r, "readyz", all)
}

func (m *Metrics) isStopping() bool {
	select {
	case <-m.o.Stopping:
		return true
	default:
		return false
	}
}

// checkRoot asks the root supervisor. One that has ended because the daemon stops is no fault.
func (m *Metrics) checkRoot(ctx context.Context) check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := m.root.probe(ctx)
	if err != nil && m.isStopping() {
		err = nil
	}
	return check{"root", err}
}

// writeChecks answers as Kubernetes does: "ok", or a line for each check if one fails or with ?verbose.
func writeChecks(w http.ResponseWriter, r *http.Request, name string, all []check) {
	var text strings.Builder
	failed := false
	for _, c := range all {
		if c.err != nil {
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: %v\n", c.name, c.err)
		} else {
			fmt.Fprintf(&text, "[+]%s ok\n", c.name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache, private")
	switch {
	case failed:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s%s check failed\n", text.String(), name)
	case r.URL.Query().Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", text.String(), name)
	default:
		fmt.Fprint(w, "ok")
	}
}

// prober asks something that may hang, once at a time.
type prober struct {
	ask func() error

	mu      sync.Mutex
	pending *probe // nil if no question is open
}

// probe is a question whose answer several callers may wait for.
type probe struct {
	answered chan struct{}
	err      error
}

// probe returns the answer, or an error if there is none before ctx ends.
func (p *prober) probe(ctx context.Context) error {
	p.mu.Lock()
	q := p.pending
	if q == nil {
		q = &probe{answered: make(chan struct{})}
		p.pending = q
		go func() {
			q.err = p.ask()
			p.mu.Lock()
			p.pending = nil
			p.mu.Unlock()
			close(q.answered)
		}()
	}
	p.mu.Unlock()
	select {
	case <-q.answered:
		return q.err
	case <-ctx.Done():
		return errors.New("it does not answer")
	}
}
