package etcdtest

import (
	"net"
	"sync"
	"testing"
)

// Proxy is a way to a member that a test can cut.
type Proxy struct {
	Address string
	target  string
	mu      sync.Mutex
	open    map[net.Conn]bool
	mode    mode
	changed chan struct{} // closed when the mode changes
	work    sync.WaitGroup
	l       net.Listener
}

type mode int

const (
	pass   mode = iota
	silent      // nothing gets through, in either direction, and nobody is told
	mute        // requests get through, answers do not
	cut         // the next request gets through, and breaks its connection
)

// NewProxy starts a proxy to a member, which ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := RunProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// RunProxy starts a proxy for a program that is no test. The caller ends it with Close.
func RunProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Address: l.Addr().String(), target: target, open: map[net.Conn]bool{}, changed: make(chan struct{}), l: l,
	}
	p.work.Go(p.serve)
	return p, nil
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.l.Close()
	p.Pass()
	p.Cut()
	p.work.Wait()
}

// Pass lets everything through; Silence nothing, and Mute only requests.
func (p *Proxy) Pass()    { p.set(pass) }
func (p *Proxy) Silence() { p.set(silent) }
func (p *Proxy) Mute()    { p.set(mute) }

// CutNext lets the next request through and closes its connection, so that it gets no answer. It returns when that has
// happened.
func (p *Proxy) CutNext() {
	p.set(cut)
	for {
		p.mu.Lock()
		done, changed := p.mode == pass, p.changed
		p.mu.Unlock()
		if done {
			return
		}
		<-changed
	}
}

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
}

// Cut closes all connections. New ones may be opened.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

func (p *Proxy) serve() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		p.work.Go(func() { p.copy(server, client, false) })
		p.work.Go(func() { p.copy(client, server, true) })
	}
}

// copy copies requests or answers.
func (p *Proxy) copy(to, from net.Conn, answers bool) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, from)
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.await(answers)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil || n > 0 && !answers && p.isCut() {
			return
		}
	}
}

// isCut reports whether a request is the one that breaks its connection.
func (p *Proxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode != cut {
		return false
	}
	p.mode = pass
	close(p.changed)
	p.changed = make(chan struct{})
	return true
}

// await waits while the mode says that nothing gets through.
func (p *Proxy) await(answers bool) {
	for {
		p.mu.Lock()
		stopped := p.mode == silent || p.mode == mute && answers
		changed := p.changed
		p.mu.Unlock()
		if !stopped {
			return
		}
		<-changed
	}
}
