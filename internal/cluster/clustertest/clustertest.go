// Package clustertest makes fleets with nodes for tests, and certificates that no fleet issues.
package clustertest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/httpserver"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Fleet has an authority, and its private key.
type Fleet struct {
	*authority.Authority
	Key *ecdsa.PrivateKey
}

// New returns a new fleet, whose store is in memory.
func New(t testing.TB) *Fleet {
	t.Helper()
	s := memory.New()
	t.Cleanup(func() { s.Close() })
	a, _, err := authority.Ensure(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Get(t.Context(), s, authority.Key)
	if err != nil {
		t.Fatal(err)
	}
	var stored struct{ Key string }
	if err := json.Unmarshal(r.Value, &stored); err != nil {
		t.Fatal(err)
	}
	key, err := pki.ParseKey([]byte(stored.Key))
	if err != nil {
		t.Fatal(err)
	}
	return &Fleet{a, key}
}

// Buffer collects text, such as a log, and is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Key returns a new key.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Node returns the identity of a new node.
func (f *Fleet) Node(t testing.TB, name string) *identity.Identity {
	t.Helper()
	key := Key(t)
	c, err := f.Issue(&key.PublicKey, name)
	if err != nil {
		t.Fatal(err)
	}
	i, err := identity.New(key, c, f.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// Template returns what the certificate of a node is made of.
func Template(name string) *x509.Certificate {
	return &x509.Certificate{
		DNSNames:  []string{pki.ServerName(name)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Minute),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// Sign returns a certificate with the signature of the authority, whatever it says.
func (f *Fleet) Sign(t testing.TB, template *x509.Certificate, key crypto.PublicKey) *x509.Certificate {
	t.Helper()
	return Sign(t, template, key, f.Certificate(), f.Key)
}

// Sign returns a certificate with the signature of a parent, which is the template itself if the certificate signs
// itself.
func Sign(t testing.TB, template *x509.Certificate, key crypto.PublicKey, parent *x509.Certificate,
	by crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TLS returns a key with a chain of certificates.
func TLS(key crypto.Signer, chain ...*x509.Certificate) *tls.Certificate {
	c := &tls.Certificate{PrivateKey: key}
	for _, link := range chain {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	return c
}

// Serve serves a handler over TLS on an address of this machine, as a daemon does, until the end of the test. It
// returns the address.
func Serve(t testing.TB, config *tls.Config, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := httpserver.Server{Name: "the test", Handler: h, Logger: slog.New(slog.DiscardHandler)}
	go func() { ended <- s.Serve(ctx, tls.NewListener(l, config)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
