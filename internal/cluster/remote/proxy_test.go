package remote

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy passes on connections until it is told otherwise.
type proxy struct {
	net.Listener
	to func() string

	mu       sync.Mutex
	pairs    map[*proxied]struct{}
	refuses  bool // new connections
	working  sync.WaitGroup
	accepted func(*proxied) // called for each connection; may be nil
}

// proxied is a connection to the proxy, with the one that it has made for it.
type proxied struct {
	client, server net.Conn
	mu             sync.Mutex
	held           []byte // from the client, since hold
	holds          bool
	holding        chan struct{} // closed when something is held
}

func newProxy(t testing.TB, to func() string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, pairs: make(map[*proxied]struct{})}
	p.working.Go(p.run)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.working.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.Addr().String() }

func (p *proxy) run() {
	for {
		c, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuses := p.refuses
		p.mu.Unlock()
		if refuses {
			c.Close()
			continue
		}
		s, err := net.Dial("tcp", p.to())
		if err != nil {
			c.Close()
			continue
		}
		pair := &proxied{client: c, server: s}
		p.mu.Lock()
		p.pairs[pair] = struct{}{}
		accepted := p.accepted
		p.mu.Unlock()
		p.working.Go(func() {
			defer p.forget(pair)
			var upward sync.WaitGroup
			upward.Go(pair.upward)
			io.Copy(c, s)
			c.Close()
			upward.Wait()
		})
		if accepted != nil {
			accepted(pair)
		}
	}
}

func (p *proxy) forget(pair *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, pair)
}

// upward passes on what the client sends, or holds it.
func (p *proxied) upward() {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.client.Read(buf)
		p.mu.Lock()
		holds := p.holds
		if holds {
			if len(p.held) == 0 && n > 0 {
				close(p.holding)
			}
			p.held = append(p.held, buf[:n]...)
		} else if _, e := p.server.Write(buf[:n]); e != nil {
			err = e
		}
		p.mu.Unlock()
		if err != nil {
			if !holds {
				p.server.Close()
			}
			return
		}
	}
}

// hold keeps what the client sends from now on, also after it has left. It is called once. The channel is closed when
// something was sent.
func (p *proxied) hold() (held <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds, p.holding = true, make(chan struct{})
	return p.holding
}

// release passes on what was held. The error is that of the connection to the server.
func (p *proxied) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.server.Write(p.held)
	return err
}

func (p *proxied) close() { p.client.Close(); p.server.Close() }

// all returns the connections.
func (p *proxy) all() []*proxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*proxied
	for pair := range p.pairs {
		all = append(all, pair)
	}
	return all
}

// cut closes all connections.
func (p *proxy) cut() {
	for _, pair := range p.all() {
		pair.close()
	}
}

// refuse refuses new connections from now on, or does not.
func (p *proxy) refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = yes
}
