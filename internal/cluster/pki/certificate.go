package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Errors of CheckTime.
var (
	ErrExpired     = errors.New("the certificate has expired")
	ErrNotYetValid = errors.New("the certificate is not valid yet")
)

// CheckTime returns why a certificate is not valid now, or nil.
func CheckTime(c *x509.Certificate, now time.Time) error {
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("%w: it was valid until %s, and the clock of this machine says %s", ErrExpired,
			text(c.NotAfter), text(now))
	case now.Before(c.NotBefore):
		return fmt.Errorf("%w: it is valid from %s, and the clock of this machine says %s; set the clock",
			ErrNotYetValid, text(c.NotBefore), text(now))
	}
	return nil
}

// Node returns the name and the hash of the key of the node to which a certificate belongs. The error says why the
// certificate is not that of a node. Node checks neither the signature nor the time.
func Node(c *x509.Certificate) (name string, key [32]byte, err error) {
	fail := func(err error) (string, [32]byte, error) {
		return "", [32]byte{}, fmt.Errorf("not a certificate of a node: %w", err)
	}
	switch {
	case c.IsCA:
		return fail(errors.New("it is that of an authority"))
	case len(c.DNSNames) != 1 || len(c.IPAddresses)+len(c.EmailAddresses)+len(c.URIs) > 0:
		return fail(errors.New("it has no alternative name or several; expected NAME." + Domain))
	case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) ||
		!slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return fail(errors.New("it is not both for servers and for clients"))
	}
	name, ok := strings.CutSuffix(c.DNSNames[0], "."+Domain)
	if !ok {
		return fail(fmt.Errorf("it is for %.100q; expected NAME.%s", c.DNSNames[0], Domain))
	}
	if err := CheckName(name); err != nil {
		return fail(err)
	}
	if key, err = KeyHash(c.PublicKey); err != nil {
		return fail(err)
	}
	return name, key, nil
}

// CheckAuthority returns why a certificate is not one that the authority of a fleet has, or nil. It does not check
// the time.
func CheckAuthority(c *x509.Certificate) error {
	fail := func(problem string) error { return fmt.Errorf("not a certificate of a fleet's authority: %s", problem) }
	switch {
	case !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage&x509.KeyUsageCertSign == 0:
		return fail("it may not sign certificates")
	case c.MaxPathLen != 0 || !c.MaxPathLenZero:
		return fail("it may sign other authorities")
	case !slices.Equal(c.PermittedDNSDomains, []string{Domain}):
		return fail("it is not limited to the names of nodes")
	}
	if _, err := PublicKey(c.PublicKey); err != nil {
		return fail(err.Error())
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		return fail("it is not signed by itself")
	}
	return nil
}
