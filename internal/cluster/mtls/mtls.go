// Package mtls connects nodes over mutual TLS: each side shows the certificate of its node, and checks that of the
// other.
//
// A node is admitted by the registry of the fleet, not by its certificate alone, because a certificate stays valid
// after its node was removed. The server asks at each handshake, and Require asks at each request, so that a node
// that was removed is also refused on a connection that it has already. A request that is being answered goes on; a
// handler that streams must end its streams itself.
//
// Sessions are not resumed: connections between nodes last long, and each new one proves everything again.
package mtls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
)

// Admit decides whether a node with a valid certificate may connect. key is the SHA-256 of its public key. Admit is
// called for each connection and each request, and concurrently. The text of its error is sent to the node.
type Admit func(name string, key [32]byte) error

// Peer is the node at the other end of a connection.
type Peer struct {
	Name string
	Key  [32]byte // the SHA-256 of its public key
}

// ErrNoCertificate is returned for a connection whose peer has shown no certificate.
var ErrNoCertificate = errors.New("no certificate of a node was shown")

// Server returns the configuration of a server that accepts the nodes of its fleet which are admitted. current
// returns the identity of this node; it is called for each connection, so that a renewal needs no restart.
func Server(current func() *identity.Identity, admit Admit) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return current().TLS(), nil
		},
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  current().Pool(),
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil // ClientAuth decides whether it may be missing
			}
			peer, err := PeerOf(&state)
			if err != nil {
				return err
			}
			return admit(peer.Name, peer.Key)
		},
	}
}

// Client returns the configuration of a client that connects to one node. The key of the wanted node may be zero;
// then every key is accepted for which the authority has issued a certificate with the node's name. The address is
// not compared with the certificate.
func Client(current func() *identity.Identity, want Peer) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return current().TLS(), nil
		},
		RootCAs:    current().Pool(),
		ServerName: pki.ServerName(want.Name),
		VerifyConnection: func(state tls.ConnectionState) error {
			peer, err := PeerOf(&state)
			switch {
			case err != nil:
				return err
			case peer.Name != want.Name:
				return fmt.Errorf("the server is node %q; expected %q", peer.Name, want.Name)
			case want.Key != [32]byte{} && peer.Key != want.Key:
				return fmt.Errorf("the server has another key than node %q; was the node removed and joined again?",
					want.Name)
			}
			return nil
		},
	}
}

// PeerOf returns the node at the other end of a connection, by the certificate that was verified. It returns
// ErrNoCertificate if there is none. The state may be nil. Handlers pass the TLS field of their request.
func PeerOf(state *tls.ConnectionState) (Peer, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return Peer{}, ErrNoCertificate
	}
	name, key, err := pki.Node(state.VerifiedChains[0][0])
	return Peer{Name: name, Key: key}, err
}

// Require passes on the requests of nodes that are admitted. It answers 401 to clients without a valid certificate,
// and 403 to nodes that are refused.
func Require(admit Admit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(err error, status int) {
			w.Header().Set("Connection", "close") // a new one may be better, such as with a renewed certificate
			http.Error(w, err.Error(), status)
		}
		peer, err := PeerOf(r.TLS)
		if err == nil {
			err = pki.CheckTime(r.TLS.VerifiedChains[0][0], time.Now())
		}
		if err != nil {
			refuse(err, http.StatusUnauthorized)
			return
		}
		if err := admit(peer.Name, peer.Key); err != nil {
			refuse(fmt.Errorf("node %q is refused: %w", peer.Name, err), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
