// Package token issues and resolves the tokens by which agents prove to the API which incarnation
// they are.
//
// Tokens keep an incarnation that has ended, and all processes it has left behind, from acting in
// the name of its successor. They do not protect against other programs of the user that runs the
// daemon.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Registry maps tokens to running incarnations.
type Registry struct {
	mu      sync.Mutex
	byToken map[string]Caller
	byPath  map[string]string   // the token of the running incarnation
	revoked map[string]Caller   // tokens that were valid, for the error
	oldest  []string            // keys of revoked, oldest first
	pending map[string]struct{} // paths whose token is not known yet
}

// maxRevoked is the maximum number of revoked tokens that are distinguished from wrong ones.
const maxRevoked = 4096

// New returns an empty registry.
func New() *Registry {
	return &Registry{
		byToken: make(map[string]Caller), byPath: make(map[string]string),
		revoked: make(map[string]Caller), pending: make(map[string]struct{}),
	}
}

// Issue creates the token of an incarnation that is about to start.
func (r *Registry) Issue(who Caller) string {
	token := rand.Text()
	r.Restore(who, token)
	return token
}

// Restore makes a token valid that an earlier daemon issued. An empty token is unknown.
func (r *Registry) Restore(who Caller, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, who.Path)
	if r.byPath[who.Path] == token {
		return
	}
	r.revoke(who.Path)
	if token != "" {
		r.byToken[token], r.byPath[who.Path] = who, token
	}
}

// Expect records that an agent is running whose token is not known yet.
func (r *Registry) Expect(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[path] = struct{}{}
}

// Revoke makes the token of an incarnation invalid, unless the agent already has a newer
// incarnation.
func (r *Registry) Revoke(who Caller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, who.Path)
	if token, ok := r.byPath[who.Path]; ok && r.byToken[token] == who {
		r.revoke(who.Path)
	}
}

// revoke makes the token of an agent invalid. Needs mu.
func (r *Registry) revoke(path string) {
	token, ok := r.byPath[path]
	if !ok {
		return
	}
	if len(r.oldest) >= maxRevoked {
		delete(r.revoked, r.oldest[0])
		r.oldest = r.oldest[1:]
	}
	r.revoked[token], r.oldest = r.byToken[token], append(r.oldest, token)
	delete(r.byToken, token)
	delete(r.byPath, path)
}

// Caller returns the incarnation of a token. The error wraps ErrStale if the token is invalid,
// and is ErrPending if that cannot be known yet.
func (r *Registry) Caller(token string) (Caller, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if who, ok := r.byToken[token]; ok {
		return who, nil
	}
	if who, ok := r.revoked[token]; ok {
		return Caller{}, Stale(who)
	}
	if len(r.pending) > 0 {
		return Caller{}, ErrPending
	}
	return Caller{}, fmt.Errorf("%w: the token is of no living agent of this project", ErrStale)
}

// Pending reports whether an agent may be running whose token is not known yet.
func (r *Registry) Pending(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.pending[path]
	return there
}

// ID returns an identifier for the incarnation of a token, which does not reveal the token.
func ID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}
