package join

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
)

// handleTimeout bounds a request, with the reading of its body.
const handleTimeout = 10 * time.Second

// Options are the parts of a Handler. All are required.
type Options struct {
	// Authority returns the authority of the fleet. It is called for machines with a valid token.
	Authority func(ctx context.Context) (*authority.Authority, error)
	// Check returns jointoken.ErrRefused if the secret is not that of a valid token; see jointoken.Store.
	Check func(ctx context.Context, id string, secret []byte) error
	// Register registers a node by the SHA-256 of its public key. It returns an error that wraps ErrNameTaken if the
	// name belongs to another key, whose text is sent to the machine; and nil if it belongs to this key already.
	Register func(ctx context.Context, name string, key [sha256.Size]byte) error
	// Bundle returns what a node needs besides its certificate, at most MaxBundle bytes. Only a machine with a valid
	// token gets it.
	Bundle func(ctx context.Context, name string) ([]byte, error)
	Logger *slog.Logger
}

// Handler answers requests to join.
type Handler struct {
	o     Options
	limit *limiter
}

// NewHandler returns a handler. It counts wrong tokens from zero.
func NewHandler(o Options) *Handler { return &Handler{o, newLimiter()} }

// failure is an error that is sent to the machine.
type failure struct {
	status int
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Errors with status 503.
var (
	// errInternal is sent in place of errors of the store and of callbacks, which are for the log alone.
	errInternal = errors.New("the node cannot let machines join now; its log says why")
	errBusy     = errors.New("the node is busy with other requests to join; try again")
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), handleTimeout)
	defer cancel()
	w.Header().Set("Connection", "close")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "expected a POST", http.StatusMethodNotAllowed)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(handleTimeout)) // if the server can
	a, err := h.join(ctx, w, r)
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // an error is that of the connection
		return
	}
	var known *failure
	var limited *limitError
	switch {
	case errors.As(err, &limited):
		w.Header().Set("Retry-After", strconv.Itoa(limited.seconds))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.As(err, &known):
		http.Error(w, known.Error(), known.status)
	default:
		h.o.Logger.Error("cannot let a machine join", "remote", r.RemoteAddr, "error", err)
		http.Error(w, errInternal.Error(), http.StatusServiceUnavailable)
	}
}

// join answers a request. Nothing but the token is looked at before that is known to be valid.
func (h *Handler) join(ctx context.Context, w http.ResponseWriter, r *http.Request) (*answer, error) {
	var q request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&q); err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return nil, &failure{http.StatusRequestEntityTooLarge,
				fmt.Errorf("the request is too large; expected at most %d bytes", maxRequest)}
		}
		return nil, &failure{http.StatusBadRequest, errors.New("the request is not the JSON that was expected")}
	}
	if err := h.check(ctx, q, r.RemoteAddr); err != nil {
		return nil, err
	}
	key, err := checkRequest(q)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, err}
	}
	issuer, err := h.o.Authority(ctx)
	if err != nil {
		return nil, err
	}
	certificate, err := issuer.Issue(key, q.Name)
	if err != nil {
		return nil, err
	}
	bundle, err := h.o.Bundle(ctx, q.Name)
	if err != nil {
		return nil, fmt.Errorf("making the bundle of node %q: %w", q.Name, err)
	}
	if len(bundle) > MaxBundle {
		return nil, fmt.Errorf("the bundle of node %q has %d bytes; at most %d are allowed", q.Name, len(bundle),
			MaxBundle)
	}
	hash, err := pki.KeyHash(key)
	if err != nil {
		return nil, err
	}
	switch err := h.o.Register(ctx, q.Name, hash); {
	case errors.Is(err, ErrNameTaken):
		h.o.Logger.Warn("a machine with the name of another node was refused", "remote", r.RemoteAddr,
			"token", q.Token, "node", q.Name)
		return nil, &failure{http.StatusConflict, err}
	case err != nil:
		return nil, fmt.Errorf("registering node %q: %w", q.Name, err)
	}
	h.o.Logger.Info("a node has joined", "remote", r.RemoteAddr, "token", q.Token, "node", q.Name)
	return &answer{certificate.Raw, issuer.Certificate().Raw, bundle}, nil
}

// check returns nil if a request has a valid token.
func (h *Handler) check(ctx context.Context, q request, remote string) error {
	err := h.limit.do(ctx, func() error { return h.o.Check(ctx, q.Token, q.Secret) })
	switch {
	case errors.Is(err, jointoken.ErrRefused):
		id := q.Token
		if jointoken.CheckID(id) != nil {
			id = "" // it may be anything, such as the secret
		}
		h.o.Logger.Warn("a machine with a wrong join token was refused", "remote", remote, "token", id)
		return &failure{http.StatusForbidden, jointoken.ErrRefused}
	case errors.Is(err, errBusy):
		return &failure{http.StatusServiceUnavailable, err}
	case errors.As(err, new(*limitError)):
		return err
	case err != nil:
		return fmt.Errorf("checking a join token: %w", err)
	}
	return nil
}

// checkRequest returns the public key of a request whose name is valid and whose certificate request is for this name
// and signed with the private key.
func checkRequest(q request) (key any, err error) {
	if err := pki.CheckName(q.Name); err != nil {
		return nil, err
	}
	csr, err := x509.ParseCertificateRequest(q.CSR)
	if err != nil {
		return nil, errors.New("the certificate request is damaged")
	}
	if _, err := pki.PublicKey(csr.PublicKey); err != nil {
		return nil, fmt.Errorf("the certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, errors.New("the certificate request is not signed with its own private key")
	}
	if !slices.Equal(csr.DNSNames, []string{pki.ServerName(q.Name)}) ||
		len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		return nil, fmt.Errorf("the certificate request is for other names than that of node %q", q.Name)
	}
	return csr.PublicKey, nil
}
