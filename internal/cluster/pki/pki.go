// Package pki defines the form of a fleet's keys and certificates: those of its authority and of its nodes. It reads
// and checks them, and issues none.
//
// All keys are ECDSA keys on P-256. A node is known by its name, which its certificate has as the only alternative
// name: NAME.node.coppice. A certificate has no IP address, because a machine may get another one.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"

	"github.com/coppice-dev/coppice/internal/nodename"
)

// Domain is the domain of the DNS names in certificates of nodes. It is in no public DNS.
const Domain = "node.coppice"

// ServerName returns the DNS name in the certificate of a node.
func ServerName(node string) string { return node + "." + Domain }

// CheckName returns what is wrong with the name of a node, or nil; see nodename.Check.
func CheckName(node string) error { return nodename.Check(node) }

// NewKey makes a key.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// PublicKey returns a public key if it is one that the fleet uses.
func PublicKey(key crypto.PublicKey) (*ecdsa.PublicKey, error) {
	k, ok := key.(*ecdsa.PublicKey)
	if !ok || k == nil || k.Curve != elliptic.P256() {
		return nil, errors.New("the public key is of another kind; expected an ECDSA key on P-256")
	}
	return k, nil
}

// KeyHash returns the SHA-256 of a public key in its PKIX form, by which the fleet knows a key.
func KeyHash(key crypto.PublicKey) ([32]byte, error) {
	k, err := PublicKey(key)
	if err != nil {
		return [32]byte{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(k)
	return sha256.Sum256(der), err
}

// Hash returns the SHA-256 of a certificate.
func Hash(c *x509.Certificate) [32]byte { return sha256.Sum256(c.Raw) }
