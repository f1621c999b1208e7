package node

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// lateConn answers the request on it when it is closed, as a server may do that is told so by TLS.
type lateConn struct {
	net.Conn
	server net.Conn
	once   sync.Once
}

func (c *lateConn) Close() error {
	c.once.Do(func() { io.WriteString(c.server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") })
	return c.Conn.Close()
}

// An answer to a request that was given up is none.
func TestLateAnswer(t *testing.T) {
	for range 200 {
		client, server := net.Pipe()
		var l Link
		l.to("a", func(context.Context) (net.Conn, error) { return &lateConn{Conn: client, server: server}, nil })
		asked := make(chan error, 1)
		go func() {
			resp, err := l.RoundTrip(newRequest(t))
			if err == nil {
				resp.Body.Close()
			}
			asked <- err
		}()
		if _, err := server.Read(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		l.Unavailable("another one is elected")
		if err := <-asked; err == nil || !strings.Contains(err.Error(), "replaced") {
			t.Fatalf("an answer after the end: %v", err)
		}
		server.Close()
	}
}

func newRequest(t *testing.T) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
	if err != nil {
		t.Error(err)
	}
	return r
}
