package web

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy passes on connections, and can cut them.
type proxy struct {
	port string

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// newProxy passes on connections to an address until the test ends.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := &proxy{port: port, conns: make(map[net.Conn]bool)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns[in] = true
			p.mu.Unlock()
			running.Go(func() { io.Copy(out, in); out.Close() })
			running.Go(func() { io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		running.Wait()
	})
	return p
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// url returns a URL with the port of the proxy.
func (p *proxy) url(of string) string {
	host, path, _ := strings.Cut(strings.TrimPrefix(of, "http://"), "/")
	at := "http://" + host[:strings.LastIndex(host, ":")+1] + p.port
	if path == "" {
		return at
	}
	return at + "/" + path
}
