package etcdtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Files are those of a cluster with TLS.
type Files struct {
	CA, Cert, Key         string // for clients; the common name of the certificate is root
	serverCert, serverKey string
	Pool                  *x509.CertPool
	pair                  tls.Certificate
}

// newFiles makes an authority and certificates. That of servers is for a host, and for 127.0.0.1, where proxies listen.
func newFiles(dir, host string) (Files, error) {
	f := Files{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"),
		Key: filepath.Join(dir, "client.key"), serverCert: filepath.Join(dir, "server.pem"),
		serverKey: filepath.Join(dir, "server.key"), Pool: x509.NewCertPool()}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caKey, err := issue(ca, nil, nil, f.CA, filepath.Join(dir, "ca.key"))
	if err != nil {
		return f, err
	}
	f.Pool.AddCert(ca)
	server := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(host)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if _, err := issue(server, ca, caKey, f.serverCert, f.serverKey); err != nil {
		return f, err
	}
	client := &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "root"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := issue(client, ca, caKey, f.Cert, f.Key); err != nil {
		return f, err
	}
	f.pair, err = tls.LoadX509KeyPair(f.Cert, f.Key)
	return f, err
}

// issue signs a certificate, with itself if there is no parent, and writes it with its new key.
func issue(c, parent *x509.Certificate, signer *ecdsa.PrivateKey, certFile, keyFile string,
) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		parent, signer = c, key
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	if parsed, err := x509.ParseCertificate(der); err == nil {
		*c = *parsed
	}
	return key, nil
}

// healthy asks a member.
func (c *Servers) healthy(ctx context.Context, i int) bool {
	transport := &http.Transport{DisableKeepAlives: true}
	url := "http://"
	if c.options.TLS {
		url = "https://"
		transport.TLSClientConfig = &tls.Config{RootCAs: c.Files.Pool, Certificates: []tls.Certificate{c.Files.pair}}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+c.members[i].client+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}
