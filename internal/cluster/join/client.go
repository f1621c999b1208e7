package join

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// addressTimeout bounds the attempt to join at one address.
const addressTimeout = 15 * time.Second

// ErrNoAnswer is returned if a node does not answer in time.
var ErrNoAnswer = errors.New("no answer in time")

// maxReason is the maximum length of a reason that a server gives, in bytes.
const maxReason = 400

// errOtherFleet is returned for a server whose authority is not that of the token.
var errOtherFleet = errors.New("the server is no node of the token's fleet: its certificate authority is another " +
	"one; the secret of the token was not sent to it")

// Join joins a fleet under a name, with a key from identity.EnsureKey. It returns the identity, which the caller
// saves, and the bundle of the node that answered. It tries the addresses of the token in turn; the error says why
// each of them failed. The error wraps jointoken.ErrRefused or ErrNameTaken if a node has refused the machine, which
// ends the attempts.
func Join(ctx context.Context, token jointoken.Token, name string, key *ecdsa.PrivateKey) (i *identity.Identity,
	bundle []byte, err error) {
	return joinWithin(ctx, addressTimeout, token, name, key)
}

// joinWithin is Join with a timeout for each address.
func joinWithin(ctx context.Context, timeout time.Duration, token jointoken.Token, name string,
	key *ecdsa.PrivateKey) (i *identity.Identity, bundle []byte, err error) {
	if err := pki.CheckName(name); err != nil {
		return nil, nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{DNSNames: []string{pki.ServerName(name)}}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate request: %w", err)
	}
	body, err := json.Marshal(request{Token: token.ID, Secret: token.Secret(), Name: name, CSR: csr})
	if err != nil {
		return nil, nil, err
	}
	var all error
	for _, address := range token.Addresses {
		a, err := post(ctx, timeout, address, token.Authority, body)
		if err == nil {
			if i, err = accept(a, token.Authority, name, key); err == nil {
				return i, a.Bundle, nil
			}
		}
		err = fmt.Errorf("%s: %w", address, err)
		switch {
		case errors.As(err, new(*refusal)):
			return nil, nil, fmt.Errorf("joining the fleet at %w", err)
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(all, cause) {
		all = fmt.Errorf("%w: %w", all, cause)
	}
	return nil, nil, fmt.Errorf("joining the fleet at %w", all)
}

// refusal is an answer that other nodes would give, too.
type refusal struct {
	reason string
	cause  error // may be nil
}

func (r *refusal) Error() string { return r.reason }
func (r *refusal) Unwrap() error { return r.cause }

// post sends a request to a server of the fleet with this authority, and to no other.
func post(ctx context.Context, timeout time.Duration, address string, authority [sha256.Size]byte,
	body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrNoAnswer)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13,
			// The server is known by its authority, whose certificate comes with the handshake.
			InsecureSkipVerify: true,
			VerifyConnection:   func(state tls.ConnectionState) error { return checkServer(state, authority) },
		},
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxRequest,
	}
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	to := url.URL{Scheme: "https", Host: address, Path: Path}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		if urlErr := new(url.Error); errors.As(err, &urlErr) {
			err = urlErr.Err // the address is known
		}
		if errors.Is(context.Cause(ctx), ErrNoAnswer) {
			err = fmt.Errorf("%w: it took longer than %v", ErrNoAnswer, timeout)
		}
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	case response.StatusCode != http.StatusOK:
		return nil, refused(response.StatusCode, text)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, errors.New("the answer is not the JSON that was expected; is the node of another version?")
	}
	return &a, nil
}

// refused returns the error of an answer that is none.
func refused(status int, text []byte) error {
	reason := plaintext.OneLine(string(text), maxReason)
	switch status {
	case http.StatusForbidden:
		return &refusal{reason, jointoken.ErrRefused}
	case http.StatusConflict:
		return &refusal{reason, ErrNameTaken}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return &refusal{reason, nil}
	}
	return fmt.Errorf("status %d: %s", status, reason)
}

// checkServer checks that a server is a node of the fleet with this authority.
func checkServer(state tls.ConnectionState, authority [sha256.Size]byte) error {
	var root *x509.Certificate
	for _, c := range state.PeerCertificates {
		if pki.Hash(c) == authority {
			root = c
		}
	}
	if root == nil {
		return errOtherFleet
	}
	if err := pki.CheckAuthority(root); err != nil {
		return err
	}
	server := state.PeerCertificates[0]
	name, _, err := pki.Node(server)
	if err != nil {
		return err
	}
	if err := pki.CheckTime(server, time.Now()); err != nil {
		return fmt.Errorf("node %q: %w", name, err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	if _, err := server.Verify(x509.VerifyOptions{Roots: pool}); err != nil { // for servers
		return fmt.Errorf("the certificate of node %q: %w", name, err)
	}
	return nil
}

// accept returns the identity in an answer, which must be for the node that has asked.
func accept(a *answer, authority [sha256.Size]byte, name string, key *ecdsa.PrivateKey) (*identity.Identity, error) {
	fail := func(err error) (*identity.Identity, error) {
		return nil, fmt.Errorf("the answer has no valid certificate for this machine: %w", err)
	}
	root, err := x509.ParseCertificate(a.Authority)
	if err != nil {
		return fail(err)
	}
	if pki.Hash(root) != authority {
		return fail(errors.New("its certificate authority is not that of the token"))
	}
	certificate, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return fail(err)
	}
	i, err := identity.New(key, certificate, root)
	if err != nil {
		return fail(err)
	}
	if i.Name() != name {
		return fail(fmt.Errorf("it is for node %q; expected %q", i.Name(), name))
	}
	if err := i.CheckTime(time.Now()); err != nil {
		return fail(err)
	}
	return i, nil
}
