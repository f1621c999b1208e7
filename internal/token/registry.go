// Package token issues the tokens by which agents prove to the API which incarnation they are, and
// resolves them.
//
// Tokens keep an incarnation that has ended, and all that it has left behind, from acting in the name
// of its successor. They do not protect from other programs of the user who owns the daemon.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// Registry maps the tokens of running incarnations to these.
type Registry struct {
	mu      sync.Mutex
	byToken map[string]Caller
	byPath  map[string]string   // the token of the running incarnation
	revoked map[string]Caller   // tokens that were valid, for the error
	oldest  []string            // keys of revoked, oldest first
	pending map[string]struct{} // paths whose token is not known yet
}

// maxRevoked is how many revoked tokens are told apart from wrong ones.
const maxRevoked = 4096

// New returns an empty registry.
func New() *Registry {
	return &Registry{
		byToken: make(map[string]Caller), byPath: make(map[string]string),
		revoked: make(map[string]Caller), pending: make(map[string]struct{}),
	}
}

// Issue makes the token of an incarnation that is about to start.
func (r *Registry) Issue(who Caller) string {
	token := rand.Text()
	r.Restore(who, token)
	return token
}

// Restore makes a token valid that an earlier daemon has issued. If it is empty, it is not known.
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

// Expect records that an agent runs whose token is not known yet.
func (r *Registry) Expect(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[path] = struct{}{}
}

// Revoke makes the token of an incarnation invalid, unless it has a successor already.
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

// Caller returns the incarnation of a token. The error wraps ErrStale if the token is not valid,
// and is ErrPending if that is not known yet.
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

// Pending reports whether an agent may run whose token is not known yet.
func (r *Registry) Pending(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.pending[path]
	return there
}

// ID returns a name for the incarnation that has a token, which does not reveal the token.
func ID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}
