package httpserver

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limiter bounds the number of connections of a listener.
type limiter struct {
	net.Listener
	max int

	mu    sync.Mutex
	conns map[net.Conn]time.Time // since when it serves no request; zero while it serves one
}

func newLimiter(l net.Listener, maxConns int) *limiter {
	return &limiter{Listener: l, max: maxConns, conns: make(map[net.Conn]time.Time)}
}

// Accept waits for the next connection for which there is a place.
func (l *limiter) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admit(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// admit gives a connection a place, if need be that of the connection that has served no request for longest.
func (l *limiter) admit(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max {
		var longest net.Conn
		for c, since := range l.conns {
			if !since.IsZero() && (longest == nil || since.Before(l.conns[longest])) {
				longest = c
			}
		}
		if longest == nil {
			return false
		}
		delete(l.conns, longest)
		longest.Close()
	}
	l.conns[conn] = time.Now()
	return true
}

// state follows the states of connections.
func (l *limiter) state(conn net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.conns[conn]; !ok {
		return // it has given way
	}
	switch s {
	case http.StateActive:
		l.conns[conn] = time.Time{}
	case http.StateIdle:
		l.conns[conn] = time.Now()
	case http.StateClosed, http.StateHijacked:
		delete(l.conns, conn)
	}
}
