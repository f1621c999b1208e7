package fakemodel

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// A Listener serves a Server on a port of 127.0.0.1.
type Listener struct {
	server   http.Server
	listener net.Listener
	served   chan struct{}
	conns    sync.WaitGroup
}

// Listen serves on a port of 127.0.0.1, until Close. Port 0 is one that is free.
func (s *Server) Listen(port int) (*Listener, error) {
	inner, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listening for model requests: %w", err)
	}
	l := &Listener{listener: inner, served: make(chan struct{})}
	l.server.Handler = s
	l.server.ReadHeaderTimeout = time.Minute
	l.server.ConnState = l.track
	go func() {
		defer close(l.served)
		_ = l.server.Serve(inner) // ends with ErrServerClosed
	}()
	return l, nil
}

// track counts the connections.
func (l *Listener) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		l.conns.Done()
	}
}

// Close closes the port and all connections, and waits for the requests in progress. Those are
// ended, also if they hang.
func (l *Listener) Close() {
	_ = l.server.Close()
	<-l.served
	_ = l.server.Close() // a connection that was accepted during the first call
	l.conns.Wait()
}

// Port returns the port.
func (l *Listener) Port() int {
	if addr, ok := l.listener.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// URL returns the base URL of a client with a tag. The scenario "@" is the one that SetScenario
// sets.
func (l *Listener) URL(scenario, tag string) string {
	return fmt.Sprintf("http://%s/s/%s/%s", l.listener.Addr(), url.PathEscape(scenario), url.PathEscape(tag))
}
