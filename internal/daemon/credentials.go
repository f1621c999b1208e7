package daemon

import (
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/api"
)

// credentials are the tokens by which living incarnations prove who they are.
// They keep an incarnation that is over, and whatever it has left behind, from
// acting in the name of its successor; they are no protection from other
// programs of the same user, who owns the daemon.
type credentials struct {
	mu      sync.Mutex
	byToken map[string]api.Caller
	byPath  map[string]string     // the token of the incarnation that lives
	over    map[string]api.Caller // tokens that were valid, for the message
	last    []string              // keys of over, oldest first
	pending map[string]struct{}   // paths whose token is not known yet
}

// maxOver is how many tokens of the past are told apart from wrong ones.
const maxOver = 4096

func newCredentials() *credentials {
	return &credentials{
		byToken: make(map[string]api.Caller), byPath: make(map[string]string),
		over: make(map[string]api.Caller), pending: make(map[string]struct{}),
	}
}

// issue makes the token of an incarnation that is about to start.
func (c *credentials) issue(who api.Caller) string {
	token := rand.Text()
	c.restore(who, token)
	return token
}

// restore makes valid what an incarnation has been given before; an empty token is not known.
func (c *credentials) restore(who api.Caller, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, who.Path)
	if c.byPath[who.Path] == token {
		return
	}
	c.end(who.Path)
	if token != "" {
		c.byToken[token], c.byPath[who.Path] = who, token
	}
}

// expect notes that an agent lives whose token is not known yet.
func (c *credentials) expect(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[path] = struct{}{}
}

// revoke ends the token of an incarnation, unless it has a successor already.
func (c *credentials) revoke(who api.Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, who.Path)
	if token, ok := c.byPath[who.Path]; ok && c.byToken[token] == who {
		c.end(who.Path)
	}
}

// end makes the token of an agent one of the past. Needs mu.
func (c *credentials) end(path string) {
	token, ok := c.byPath[path]
	if !ok {
		return
	}
	if len(c.last) >= maxOver {
		delete(c.over, c.last[0])
		c.last = c.last[1:]
	}
	c.over[token], c.last = c.byToken[token], append(c.last, token)
	delete(c.byToken, token)
	delete(c.byPath, path)
}

// caller returns whose token it is.
func (c *credentials) caller(token string) (api.Caller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if who, ok := c.byToken[token]; ok {
		return who, nil
	}
	if who, ok := c.over[token]; ok {
		return api.Caller{}, api.Stale(who)
	}
	if len(c.pending) > 0 {
		return api.Caller{}, fmt.Errorf("%w: agents are still being taken over", api.ErrStopping)
	}
	return api.Caller{}, fmt.Errorf("%w: the token is of no living agent of this project", api.ErrStale)
}

// unknown reports whether an agent may live, and its token is not known yet.
func (c *credentials) unknown(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.pending[path]
	return there
}
