// Package join lets machines join a fleet with a token: Handler is the side of the nodes, Join that of the machine.
//
// The machine knows the SHA-256 of the authority's certificate from the token. It checks the server with it before it
// sends the secret, so that no server outside of the fleet gets the secret. The address is not checked, because it
// may change: any node of the fleet may answer, also one that was removed, while its certificate is valid.
//
// The machine sends the token's secret and a certificate request, signed with its private key, which never leaves it.
// The answer has its certificate and a bundle of bytes, in which the caller of this package passes on the way to the
// store. The node registers the name with the key before it answers. A machine whose answer was lost joins again with
// the same key.
package join

import (
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/mtls"
)

// Path is the path of requests to join.
const Path = "/join"

// Bounds of messages in bytes.
const (
	MaxBundle = 1 << 20

	maxRequest = 64 << 10
	maxAnswer  = 2*MaxBundle + maxRequest // the bundle is in base64
)

// ErrNameTaken is returned if the name of the node belongs to another key.
var ErrNameTaken = errors.New("the name of the node is taken by another key")

// request is the body of a request.
type request struct {
	Token  string `json:"token"` // its ID
	Secret []byte `json:"secret"`
	Name   string `json:"name"` // of the node
	CSR    []byte `json:"csr"`  // in DER, for the name; it proves that the machine has the private key
}

// answer is the body of an answer with status 200. All others have a text.
type answer struct {
	Certificate []byte `json:"certificate"` // in DER, as the authority's
	Authority   []byte `json:"authority"`
	Bundle      []byte `json:"bundle"`
}

// Endpoint returns what a node serves on its port: nodes to the nodes that are admitted, and join at Path to machines
// that have no certificate yet. The configuration accepts connections without a certificate, and must not be used
// without the handler, which lets them reach nothing but join. Requests name the host by the address that the client
// has dialed, which may be any name of this machine.
func Endpoint(current func() *identity.Identity, admit mtls.Admit, nodes, join http.Handler) (*tls.Config,
	http.Handler) {
	config := mtls.Server(current, admit)
	config.ClientAuth = tls.VerifyClientCertIfGiven
	guarded := mtls.Require(admit, nodes)
	return config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Path {
			join.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}
