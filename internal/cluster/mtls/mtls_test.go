package mtls_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fixed(i *identity.Identity) func() *identity.Identity {
	return func() *identity.Identity { return i }
}

func everybody(string, [32]byte) error { return nil }

// registry admits the nodes that it has, by name and key.
type registry struct {
	mu    sync.Mutex
	nodes map[string][32]byte
	asked int
}

func newRegistry(all ...*identity.Identity) *registry {
	r := &registry{nodes: make(map[string][32]byte)}
	for _, i := range all {
		r.nodes[i.Name()] = i.KeyHash()
	}
	return r
}

func (r *registry) admit(name string, key [32]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if have, ok := r.nodes[name]; !ok || have != key {
		return errors.New("it was removed from the fleet")
	}
	return nil
}

func (r *registry) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, name)
}

func (r *registry) asks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// server is a node that answers with the name of its peer.
type server struct {
	address string
	answers atomic.Int32
}

func serve(t *testing.T, config *tls.Config, admit mtls.Admit) *server {
	t.Helper()
	s := &server{}
	s.address = clustertest.Serve(t, config, mtls.Require(admit, http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		s.answers.Add(1)
		peer, err := mtls.PeerOf(r.TLS)
		if err != nil {
			t.Error(err)
		}
		io.WriteString(w, "hello "+peer.Name)
	})))
	return s
}

// client returns a client with a configuration, which keeps its connections open until the end of the test.
func client(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *server) get(c *http.Client) (status int, text string, err error) {
	response, err := c.Get("https://" + s.address + "/")
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func (s *server) want(t *testing.T, c *http.Client, status int, text string) {
	t.Helper()
	if gotStatus, got, err := s.get(c); gotStatus != status || !strings.Contains(got, text) || err != nil {
		t.Errorf("%d %q, %v; want %d %q", gotStatus, got, err, status, text)
	}
}

func TestPeers(t *testing.T) {
	f := clustertest.New(t)
	a, b := f.Node(t, "a"), f.Node(t, "b.example")
	nodes := newRegistry(a, b)
	sa := serve(t, mtls.Server(fixed(a), nodes.admit), nodes.admit)
	sb := serve(t, mtls.Server(fixed(b), nodes.admit), nodes.admit)
	sb.want(t, client(t, mtls.Client(fixed(a), mtls.Peer{Name: "b.example", Key: b.KeyHash()})), 200, "hello a")
	sb.want(t, client(t, mtls.Client(fixed(a), mtls.Peer{Name: "b.example"})), 200, "hello a")
	sa.want(t, client(t, mtls.Client(fixed(b), mtls.Peer{Name: "a", Key: a.KeyHash()})), 200, "hello b.example")
}

// hostile returns keys with chains of certificates that no node of the fleet has, and whose name is "b".
func hostile(t *testing.T, f *clustertest.Fleet) map[string]*tls.Certificate {
	t.Helper()
	other, key := clustertest.New(t), clustertest.Key(t)
	forged := func(change func(*x509.Certificate)) *tls.Certificate {
		template := clustertest.Template("b")
		change(template)
		return clustertest.TLS(key, f.Sign(t, template, key.Public()), f.Certificate())
	}
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	leaf := f.Sign(t, clustertest.Template("c"), key.Public())
	self := clustertest.Template("b")
	return map[string]*tls.Certificate{
		"of another fleet": other.Node(t, "b").TLS(),
		"of another fleet, with our authority behind it": clustertest.TLS(key,
			other.Sign(t, clustertest.Template("b"), key.Public()), f.Certificate()),
		"signed by itself": clustertest.TLS(key, clustertest.Sign(t, self, key.Public(), self, key)),
		"signed by a node": clustertest.TLS(key,
			clustertest.Sign(t, clustertest.Template("b"), key.Public(), leaf, key), leaf, f.Certificate()),
		"the authority": clustertest.TLS(f.Key, f.Certificate()),
		"expired": forged(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Second)
		}),
		"not yet valid": forged(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Second) }),
		"no name":       forged(func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "b" }),
		"other domain":  forged(func(c *x509.Certificate) { c.DNSNames = []string{"b.example"} }),
		"wildcard":      forged(func(c *x509.Certificate) { c.DNSNames = []string{"*.node.coppice"} }),
		"two names":     forged(func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "c.node.coppice") }),
		"capital":       forged(func(c *x509.Certificate) { c.DNSNames = []string{"B.node.coppice"} }),
		"IP address": forged(func(c *x509.Certificate) {
			c.DNSNames, c.IPAddresses = nil, []net.IP{{127, 0, 0, 1}}
		}),
		"no use": forged(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }),
		"P-224":  clustertest.TLS(small, f.Sign(t, clustertest.Template("b"), small.Public()), f.Certificate()),
		"RSA":    clustertest.TLS(large, f.Sign(t, clustertest.Template("b"), large.Public()), f.Certificate()),
		"for the other key": clustertest.TLS(key,
			f.Sign(t, clustertest.Template("b"), clustertest.Key(t).Public()), f.Certificate()),
	}
}

func TestServerRefuses(t *testing.T) {
	f := clustertest.New(t)
	a, b, removed := f.Node(t, "a"), f.Node(t, "b"), f.Node(t, "removed")
	impostor := f.Node(t, "b") // with the name of a node, and another key
	nodes := newRegistry(a, b)
	s := serve(t, mtls.Server(fixed(a), nodes.admit), everybody) // the handshake alone refuses
	config := func(show *tls.Certificate) *tls.Config {
		c := mtls.Client(fixed(b), mtls.Peer{Name: "a"})
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show, nil }
		return c
	}
	s.want(t, client(t, config(b.TLS())), 200, "hello b")
	refused := hostile(t, f)
	refused["none"], refused["removed"], refused["impostor"] = &tls.Certificate{}, removed.TLS(), impostor.TLS()
	for name, show := range refused {
		if status, text, err := s.get(client(t, config(show))); err == nil {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	old := config(b.TLS())
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if status, text, err := s.get(client(t, old)); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("TLS 1.2: %d %q, %v", status, text, err)
	}
	if n := s.answers.Load(); n != 1 {
		t.Errorf("%d requests were answered", n)
	}
}

func TestClientRefuses(t *testing.T) {
	f := clustertest.New(t)
	a, b, c := f.Node(t, "a"), f.Node(t, "b"), f.Node(t, "c")
	refused := hostile(t, f)
	refused["other node"], refused["other key"] = c.TLS(), f.Node(t, "b").TLS()
	want := mtls.Peer{Name: "b", Key: b.KeyHash()}
	for name, show := range refused {
		config := mtls.Server(fixed(b), everybody)
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return show, nil }
		s := serve(t, config, everybody)
		if status, text, err := s.get(client(t, mtls.Client(fixed(a), want))); err == nil || s.answers.Load() > 0 {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	s := serve(t, mtls.Server(fixed(b), everybody), everybody)
	s.want(t, client(t, mtls.Client(fixed(a), want)), 200, "hello a")
	for name, want := range map[string]mtls.Peer{
		"no name": {}, "dot": {Name: "."}, "other name": {Name: "c"}, "part": {Name: "b.c"}, "capital": {Name: "B"},
		"other key": {Name: "b", Key: c.KeyHash()}, "wildcard": {Name: "*"},
	} {
		if status, text, err := s.get(client(t, mtls.Client(fixed(a), want))); err == nil {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	old := mtls.Server(fixed(b), everybody)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, _, err := serve(t, old, everybody).get(client(t, mtls.Client(fixed(a), want))); err == nil {
		t.Error("TLS 1.2: no error")
	}
}

// Requests without a certificate that is valid now are answered with 401, and close their connection.
func TestRequire(t *testing.T) {
	f, key := clustertest.New(t), clustertest.Key(t)
	template := clustertest.Template("a")
	template.NotAfter = time.Now().Add(-time.Second)
	expired := f.Sign(t, template, key.Public())
	h := mtls.Require(everybody, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("answered") }))
	for name, state := range map[string]*tls.ConnectionState{
		"no TLS": nil, "no certificate": {},
		"not verified": {PeerCertificates: []*x509.Certificate{f.Node(t, "a").TLS().Leaf}},
		"expired since": {
			PeerCertificates: []*x509.Certificate{expired},
			VerifiedChains:   [][]*x509.Certificate{{expired, f.Certificate()}},
		},
		"authority": {VerifiedChains: [][]*x509.Certificate{{f.Certificate()}}},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = state
		h.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
}
