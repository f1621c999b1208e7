// Package authority has the certificate authority of a fleet, which issues the certificates of its nodes.
//
// The authority is created once for each fleet, and kept in the store with its private key, so that every node can
// issue certificates, also those that renew its own. The store is therefore what protects a fleet. Whoever may read
// it, or a backup of it, may issue certificates for all nodes. Whoever may write it decides what runs on all
// machines, and needs no certificates for that.
//
// The authority itself signs nothing but certificates of nodes: it may sign no other authority, and its name
// constraints allow no names outside of the domain of nodes and no IP addresses. A machine that trusts it trusts it
// for nothing else.
package authority

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/cluster/record"
	"github.com/coppice-dev/coppice/internal/store"
)

// Key is the key of the authority's record.
const Key = "cluster/authority"

// Times of certificates.
const (
	// Life is the time for which the certificate of a node is valid.
	Life = 90 * 24 * time.Hour
	// Backdate is the time by which certificates are valid earlier than they were made. The clocks of two machines
	// may differ by as much.
	Backdate = time.Hour

	yearsOfAuthority = 20
)

// ErrNone is returned if the fleet has no authority.
var ErrNone = errors.New("the fleet has no certificate authority; create it with: coppice cluster init")

// Authority issues certificates. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// stored is the record of an authority.
type stored struct {
	Certificate string `json:"certificate"` // in PEM, as the key
	Key         string `json:"key"`
}

// Ensure returns the authority of the fleet, and creates it if there is none. Of concurrent calls only one creates
// it, and all return the same. After store.ErrUnknown it may have been created; calling Ensure again is safe.
func Ensure(ctx context.Context, s store.Store) (a *Authority, created bool, err error) {
	if a, err := Load(ctx, s); !errors.Is(err, ErrNone) {
		return a, false, err
	}
	value, err := create()
	if err != nil {
		return nil, false, fmt.Errorf("creating the certificate authority: %w", err)
	}
	r, created, err := record.Create(ctx, s, Key, value)
	if err != nil {
		return nil, false, fmt.Errorf("writing the certificate authority: %w", err)
	}
	a, err = parse(r.Value)
	return a, created, err
}

// Load returns the authority of the fleet, or ErrNone.
func Load(ctx context.Context, s store.Store) (*Authority, error) {
	r, err := store.Get(ctx, s, Key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	case r.Rev == 0:
		return nil, ErrNone
	}
	return parse(r.Value)
}

// create makes a new authority, and returns its record.
func create() ([]byte, error) {
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Coppice fleet authority"},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.AddDate(yearsOfAuthority, 0, 0),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		PermittedDNSDomainsCritical: true, // makes all constraints critical
		PermittedDNSDomains:         []string{pki.Domain},
		ExcludedIPRanges:            []*net.IPNet{everything(net.IPv4len), everything(net.IPv6len)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(stored{Certificate: string(pki.EncodeCertificates(c)), Key: string(text)})
}

// everything returns the range of all IP addresses of a length.
func everything(length int) *net.IPNet {
	return &net.IPNet{IP: make(net.IP, length), Mask: make(net.IPMask, length)}
}

// parse reads a record. The errors reveal nothing of the key.
func parse(value []byte) (*Authority, error) {
	fail := func(err error) (*Authority, error) {
		return nil, fmt.Errorf("the certificate authority in the store, %s, is damaged: %w; "+
			"restore it from a backup of the store", Key, err)
	}
	var s stored
	if json.Unmarshal(value, &s) != nil { // whose error may quote the key
		return fail(errors.New("expected an object with a certificate and a key, in JSON"))
	}
	all, err := pki.ParseCertificates([]byte(s.Certificate), 1)
	if err != nil {
		return fail(fmt.Errorf("certificate: %w", err))
	}
	if err := pki.CheckAuthority(all[0]); err != nil {
		return fail(err)
	}
	key, err := pki.ParseKey([]byte(s.Key))
	if err != nil {
		return fail(fmt.Errorf("key: %w", err))
	}
	if !key.PublicKey.Equal(all[0].PublicKey) {
		return fail(errors.New("the key is not that of the certificate"))
	}
	return &Authority{all[0], key}, nil
}

// Certificate returns the certificate of the authority.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// Issue issues a certificate for a node. It is valid for Life, for servers and for clients.
func (a *Authority) Issue(key crypto.PublicKey, node string) (*x509.Certificate, error) {
	fail := func(err error) (*x509.Certificate, error) {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	if err := pki.CheckName(node); err != nil {
		return fail(err)
	}
	public, err := pki.PublicKey(key)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	if err := pki.CheckTime(a.certificate, now); err != nil {
		return fail(fmt.Errorf("the certificate authority: %w", err))
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:               pkix.Name{CommonName: node},
		DNSNames:              []string{pki.ServerName(node)},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(Life),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, public, a.key)
	if err != nil {
		return fail(err)
	}
	return x509.ParseCertificate(der)
}
