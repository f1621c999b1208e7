package mtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
)

// A session is not resumed. If it is, because a server was configured so, the node has to be admitted as well.
func TestResumption(t *testing.T) {
	f := clustertest.New(t)
	a, b := f.Node(t, "a"), f.Node(t, "b")
	for _, tickets := range []bool{false, true} {
		nodes := newRegistry(a, b)
		config := mtls.Server(fixed(a), nodes.admit)
		if !config.SessionTicketsDisabled {
			t.Error("sessions may be resumed")
		}
		config.SessionTicketsDisabled = !tickets
		s := serve(t, config, everybody)
		to := mtls.Client(fixed(b), mtls.Peer{Name: "a"})
		to.SessionTicketsDisabled, to.ClientSessionCache = false, tls.NewLRUClientSessionCache(8)
		for n, resumed := range []bool{false, tickets, tickets} {
			if n == 2 {
				nodes.remove("b")
			}
			before := nodes.asks()
			transport := &http.Transport{TLSClientConfig: to, DisableKeepAlives: true}
			response, err := (&http.Client{Transport: transport}).Get("https://" + s.address + "/")
			if n == 2 {
				if err == nil {
					t.Errorf("tickets %v: a node that was removed got status %d", tickets, response.StatusCode)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				io.Copy(io.Discard, response.Body)
				if response.TLS.DidResume != resumed {
					t.Errorf("tickets %v, connection %d: resumed is %v", tickets, n, response.TLS.DidResume)
				}
			}
			if response != nil {
				response.Body.Close()
			}
			if nodes.asks() != before+1 {
				t.Errorf("tickets %v, connection %d: admit was called %d times", tickets, n, nodes.asks()-before)
			}
		}
	}
}

// A node that is removed is refused at its next request, on the connection that it has and on a new one.
func TestRemoved(t *testing.T) {
	f := clustertest.New(t)
	a, b := f.Node(t, "a"), f.Node(t, "b")
	nodes := newRegistry(a, b)
	s := serve(t, mtls.Server(fixed(a), nodes.admit), nodes.admit)
	c := client(t, mtls.Client(fixed(b), mtls.Peer{Name: "a"}))
	s.want(t, c, 200, "hello b")
	s.want(t, c, 200, "hello b")
	if nodes.asks() != 3 { // one handshake and two requests
		t.Errorf("admit was called %d times", nodes.asks())
	}
	nodes.remove("b")
	s.want(t, c, 403, `node "b" is refused: it was removed from the fleet`)
	if status, text, err := s.get(c); err == nil {
		t.Errorf("on a new connection: %d %q", status, text)
	}
	if n := s.answers.Load(); n != 2 {
		t.Errorf("%d requests were answered", n)
	}
}

// Connections that are made after a renewal show the new certificates.
func TestRenewed(t *testing.T) {
	f := clustertest.New(t)
	a, b := f.Node(t, "a"), f.Node(t, "b")
	var current [2]atomic.Pointer[identity.Identity]
	current[0].Store(a)
	current[1].Store(b)
	seen := make(chan *x509.Certificate, 1)
	address := clustertest.Serve(t, mtls.Server(current[0].Load, everybody), http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { seen <- r.TLS.PeerCertificates[0] }))
	config := mtls.Client(current[1].Load, mtls.Peer{Name: "a", Key: a.KeyHash()})
	check := func() {
		t.Helper()
		response, err := (&http.Client{Transport: &http.Transport{
			TLSClientConfig: config, DisableKeepAlives: true,
		}}).Get("https://" + address)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		want := [2]*x509.Certificate{current[0].Load().TLS().Leaf, current[1].Load().TLS().Leaf}
		if !response.TLS.PeerCertificates[0].Equal(want[0]) || !(<-seen).Equal(want[1]) {
			t.Error("not the current certificates")
		}
	}
	check()
	for n, i := range []*identity.Identity{a, b} {
		c, err := f.Issue(i.PublicKey(), i.Name())
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := i.Renewed(c)
		if err != nil {
			t.Fatal(err)
		}
		current[n].Store(renewed)
	}
	check()
}
