package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
)

// weak returns keys that no fleet uses.
func weak(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"P-224": small, "RSA": large, "Ed25519": edwards}
}

func TestPublicKey(t *testing.T) {
	key := clustertest.Key(t)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if hash, err := pki.KeyHash(&key.PublicKey); err != nil || hash != sha256.Sum256(der) {
		t.Errorf("%x, %v", hash, err)
	}
	bad := map[string]crypto.PublicKey{
		"nil": nil, "nil key": (*ecdsa.PublicKey)(nil), "private": key, "no curve": &ecdsa.PublicKey{},
	}
	for name, k := range weak(t) {
		bad[name] = k.Public()
	}
	for name, k := range bad {
		if hash, err := pki.KeyHash(k); err == nil || hash != [32]byte{} {
			t.Errorf("%s: %x, %v", name, hash, err)
		}
	}
}

func TestNode(t *testing.T) {
	f, key := clustertest.New(t), clustertest.Key(t)
	want, err := pki.KeyHash(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		err    string
	}{
		"good":      {func(*x509.Certificate) {}, ""},
		"authority": {func(c *x509.Certificate) { c.IsCA = true }, "an authority"},
		"no name":   {func(c *x509.Certificate) { c.DNSNames = nil }, "no alternative name"},
		"two names": {func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "b.node.coppice") }, "or several"},
		"address":   {func(c *x509.Certificate) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} }, "or several"},
		"mail":      {func(c *x509.Certificate) { c.EmailAddresses = []string{"a@b.example"} }, "or several"},
		"URI":       {func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, "or several"},
		"other":     {func(c *x509.Certificate) { c.DNSNames = []string{"a.example"} }, `is for "a.example"`},
		"domain":    {func(c *x509.Certificate) { c.DNSNames = []string{"node.coppice"} }, `is for "node.coppice"`},
		"suffix":    {func(c *x509.Certificate) { c.DNSNames = []string{"a.xnode.coppice"} }, "is for"},
		"wildcard":  {func(c *x509.Certificate) { c.DNSNames = []string{"*.node.coppice"} }, "other characters"},
		"capital":   {func(c *x509.Certificate) { c.DNSNames = []string{"A.node.coppice"} }, "capital letters"},
		"common name alone": {func(c *x509.Certificate) {
			c.DNSNames, c.Subject.CommonName = nil, "a"
		}, "no alternative name"},
		"for servers alone": {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, "not both"},
		"for all":           {func(c *x509.Certificate) { c.ExtKeyUsage = nil }, "not both"},
	} {
		template := clustertest.Template("a")
		c.change(template)
		node, hash, err := pki.Node(f.Sign(t, template, &key.PublicKey))
		if c.err == "" {
			if node != "a" || hash != want || err != nil {
				t.Errorf("%s: %q, %x, %v", name, node, hash, err)
			}
		} else if err == nil || node != "" || hash != [32]byte{} || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %x, %v, want %q", name, node, hash, err, c.err)
		}
	}
	for name, k := range weak(t) {
		if node, _, err := pki.Node(f.Sign(t, clustertest.Template("a"), k.Public())); err == nil {
			t.Errorf("%s: %q", name, node)
		}
	}
}

func TestCheckAuthority(t *testing.T) {
	f := clustertest.New(t)
	if err := pki.CheckAuthority(f.Certificate()); err != nil {
		t.Error(err)
	}
	template := func() *x509.Certificate {
		return &x509.Certificate{
			NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
			KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomains: []string{pki.Domain},
		}
	}
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		err    string
	}{
		"good":           {func(*x509.Certificate) {}, ""},
		"no authority":   {func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false }, "may not sign"},
		"no constraints": {func(c *x509.Certificate) { c.BasicConstraintsValid = false }, "may not sign"},
		"usage":          {func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }, "may not sign"},
		"longer paths":   {func(c *x509.Certificate) { c.MaxPathLen = 1 }, "may sign other"},
		"any path":       {func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = -1, false }, "may sign other"},
		"all names":      {func(c *x509.Certificate) { c.PermittedDNSDomains = nil }, "not limited"},
		"more names": {func(c *x509.Certificate) {
			c.PermittedDNSDomains = append(c.PermittedDNSDomains, "example.com")
		}, "not limited"},
	} {
		signed := template()
		c.change(signed)
		err := pki.CheckAuthority(clustertest.Sign(t, signed, &f.Key.PublicKey, signed, f.Key))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
	for name, k := range weak(t) {
		if err := pki.CheckAuthority(clustertest.Sign(t, template(), k.Public(), template(), k)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	key := clustertest.Key(t)
	if err := pki.CheckAuthority(f.Sign(t, template(), &key.PublicKey)); err == nil ||
		!strings.Contains(err.Error(), "not signed by itself") {
		t.Error(err)
	}
}

func TestCheckTime(t *testing.T) {
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: from, NotAfter: from.Add(time.Hour)}
	for after, want := range map[time.Duration]error{
		-time.Second: pki.ErrNotYetValid, 0: nil, time.Hour: nil, time.Hour + time.Second: pki.ErrExpired,
	} {
		err := pki.CheckTime(c, from.Add(after))
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v: %v, want %v", after, err, want)
		}
	}
}

func TestPEM(t *testing.T) {
	f, other := clustertest.New(t), clustertest.New(t)
	a, b := pki.EncodeCertificates(f.Certificate()), pki.EncodeCertificates(other.Certificate())
	key, err := pki.EncodeKey(f.Key)
	if err != nil {
		t.Fatal(err)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	all, err := pki.ParseCertificates(join(a, b), 2)
	if err != nil || !all[0].Equal(f.Certificate()) || !all[1].Equal(other.Certificate()) {
		t.Error(err)
	}
	if got, err := pki.ParseKey(key); err != nil || !got.Equal(f.Key) {
		t.Error(err)
	}
	block := func(kind string, data []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
	}
	for name, text := range map[string][]byte{
		"empty": nil, "garbage": []byte("garbage"), "binary": f.Certificate().Raw, "too few": a,
		"too many": join(a, b, a), "text in front": join([]byte("x\n"), a, b), "between": join(a, []byte("\n"), b),
		"behind": join(a, b, []byte(" ")), "cut": join(a, b[:len(b)-2]), "cut in the middle": join(a[:len(a)/2], b),
		"key": join(a, key), "key first": join(key, a), "empty block": join(a, block("CERTIFICATE", nil)),
		"bad DER": join(a, block("CERTIFICATE", f.Certificate().Raw[1:])),
		"huge":    bytes.Repeat(a, 1000), "many": bytes.Repeat(block("CERTIFICATE", nil), 1000),
		"headers": join(a, []byte("-----BEGIN CERTIFICATE-----\nA: b\n\n-----END CERTIFICATE-----\n")),
		"CRLF":    bytes.ReplaceAll(join(a, b), []byte("\n"), []byte("\r\n")),
	} {
		if got, err := pki.ParseCertificates(text, 2); err == nil || got != nil || len(err.Error()) > 300 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, text := range map[string][]byte{
		"empty": nil, "certificate": a, "twice": join(key, key), "cut": key[:len(key)/2],
		"bad DER": block("PRIVATE KEY", key), "behind": join(key, a), "garbage": []byte("-----BEGIN PRIVATE KEY-----"),
	} {
		if got, err := pki.ParseKey(text); err == nil || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, k := range weak(t) {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pki.ParseKey(block("PRIVATE KEY", der)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What is read is what was written, and nothing is read from anything else.
func FuzzParse(f *testing.F) {
	fleet := clustertest.New(f)
	key, err := pki.EncodeKey(fleet.Key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pki.EncodeCertificates(fleet.Certificate()))
	f.Add(key)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := pki.ParseCertificates(text, 1)
		if err == nil && !bytes.Equal(pki.EncodeCertificates(all...), text) {
			t.Errorf("%q was read as another certificate", text)
		}
		if key, err := pki.ParseKey(text); err == nil {
			if _, err := pki.KeyHash(&key.PublicKey); err != nil {
				t.Error(err)
			}
		}
	})
}
