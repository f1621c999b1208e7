// Package identity has the identity of a node: its private key, its certificate, and that of the fleet's authority.
//
// It is kept in two files of a directory. key.pem has the private key, which is made once, before the machine joins,
// and which neither a repeated join nor a renewal changes. So a join whose answer was lost can be repeated, although
// the fleet already knows the key. certificate.pem has the certificates of the node and of the authority; it is
// replaced as a whole. Whenever a machine crashes, the files therefore fit each other. To get a new key, remove the
// directory and join again.
package identity

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/pki"
)

// Identity proves to other nodes which node this is. It does not change; a renewal makes another one.
type Identity struct {
	name        string
	keyHash     [32]byte
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	authority   *x509.Certificate
}

// New returns the identity of a key and its certificates, which must fit each other. It does not check the time; see
// CheckTime.
func New(key *ecdsa.PrivateKey, certificate, authority *x509.Certificate) (*Identity, error) {
	if err := pki.CheckAuthority(authority); err != nil {
		return nil, err
	}
	name, keyHash, err := pki.Node(certificate)
	if err != nil {
		return nil, err
	}
	if err := certificate.CheckSignatureFrom(authority); err != nil {
		return nil, fmt.Errorf("the certificate of node %q was not issued by this authority: %w", name, err)
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("the certificate of node %q is not for this private key", name)
	}
	return &Identity{name, keyHash, key, certificate, authority}, nil
}

// Name returns the name of the node.
func (i *Identity) Name() string { return i.name }

// KeyHash returns the SHA-256 of the node's public key, by which the fleet knows it.
func (i *Identity) KeyHash() [32]byte { return i.keyHash }

// PublicKey returns the node's public key.
func (i *Identity) PublicKey() *ecdsa.PublicKey { return &i.key.PublicKey }

// Authority returns the certificate of the fleet's authority.
func (i *Identity) Authority() *x509.Certificate { return i.authority }

// NotAfter returns the time at which the certificate expires.
func (i *Identity) NotAfter() time.Time { return i.certificate.NotAfter }

// RenewAt returns the time from which the certificate should be renewed: when two thirds of its life are over.
func (i *Identity) RenewAt() time.Time {
	life := i.certificate.NotAfter.Sub(i.certificate.NotBefore)
	return i.certificate.NotBefore.Add(life / 3 * 2)
}

// Renewed returns the identity with a new certificate for the same name and key.
func (i *Identity) Renewed(certificate *x509.Certificate) (*Identity, error) {
	next, err := New(i.key, certificate, i.authority)
	if err != nil {
		return nil, err
	}
	if next.name != i.name {
		return nil, fmt.Errorf("the new certificate is for node %q; expected %q", next.name, i.name)
	}
	return next, nil
}

// CheckTime returns why the certificates are not valid at a time, or nil. The error wraps pki.ErrExpired or
// pki.ErrNotYetValid.
func (i *Identity) CheckTime(now time.Time) error {
	if err := pki.CheckTime(i.authority, now); err != nil {
		return fmt.Errorf("the certificate authority of the fleet: %w", err)
	}
	if err := pki.CheckTime(i.certificate, now); err != nil {
		return fmt.Errorf("node %q: %w", i.name, err)
	}
	return nil
}

// TLS returns the certificates with the key, as a server or client shows them: that of the authority comes with that
// of the node, because a machine that joins knows only its hash.
func (i *Identity) TLS() *tls.Certificate {
	return &tls.Certificate{
		Certificate: [][]byte{i.certificate.Raw, i.authority.Raw}, PrivateKey: i.key, Leaf: i.certificate,
	}
}

// Pool returns a pool with the certificate of the authority.
func (i *Identity) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.authority)
	return pool
}
