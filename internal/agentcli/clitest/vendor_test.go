package clitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// vendorHost is the server that claude asks about a plan, whatever ANTHROPIC_BASE_URL is.
const vendorHost = "api.anthropic.com"

// newVendor plays the server of Anthropic: a proxy for HTTPS that leads to a handler, and to nothing else. It returns
// the variables with which claude uses it.
func newVendor(t *testing.T, h http.Handler) []string {
	t.Helper()
	certificate, file := newCertificate(t)
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	var tunnels sync.WaitGroup
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != vendorHost+":443" {
			http.Error(w, "no such server", http.StatusBadGateway)
			return
		}
		there, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		here, early, err := http.NewResponseController(w).Hijack()
		if err != nil {
			there.Close()
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		for _, c := range []struct {
			to   net.Conn
			from io.Reader
		}{{there, early}, {here, there}} {
			tunnels.Go(func() {
				defer c.to.Close()
				_, _ = io.Copy(c.to, c.from) // until either end is closed
			})
		}
	}))
	t.Cleanup(func() {
		proxy.Close()
		server.CloseClientConnections()
		tunnels.Wait()
	})
	return []string{"HTTPS_PROXY=" + proxy.URL, "NO_PROXY=127.0.0.1", "NODE_EXTRA_CA_CERTS=" + file}
}

// newCertificate returns a certificate of the server, and its file.
func newCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{vendorHost}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
