package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// role says what somebody may do.
type role string

const (
	operator role = "operator" // sees everything, and acts
	reader   role = "reader"   // sees everything
)

const (
	linkTime    = 10 * time.Minute
	sessionTime = 30 * 24 * time.Hour
	maxLinks    = 100
	maxSessions = 1000
)

// session is somebody who is signed in.
type session struct {
	role  role
	until time.Time
	done  string // what the last form has done, for the next page. Needs sessions.mu
}

// key is the hash of what somebody proves himself with.
type key = [sha256.Size]byte

// sessions are the links that were not used yet, and those who are signed in.
type sessions struct {
	now    func() time.Time
	saving sync.Mutex

	mu       sync.Mutex
	kept     store.Store // has who is signed in; nil if that is not kept
	keptAt   string      // the key of the record there
	links    map[key]*session
	sessions map[key]*session
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, links: make(map[key]*session), sessions: make(map[key]*session)}
}

// newLink returns the secret of a new link.
func (s *sessions) newLink(r role) string {
	return s.add(s.links, maxLinks, &session{role: r, until: s.now().Add(linkTime)})
}

// add adds a session under a new secret. If there are too many, the one that ends first is dropped.
func (s *sessions) add(to map[key]*session, most int, added *session) (secret string) {
	secret = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(to) >= most {
		delete(to, slices.MinFunc(slices.Collect(maps.Keys(to)), func(a, b key) int {
			return to[a].until.Compare(to[b].until)
		}))
	}
	to[sha256.Sum256([]byte(secret))] = added
	return secret
}

// begin signs in the sender of a request that has a link. After an error, he is signed in until this server ends.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request) (ok bool, err error) {
	key := sha256.Sum256([]byte(r.URL.Query().Get("link")))
	s.mu.Lock()
	link, ok := s.links[key]
	delete(s.links, key)
	s.mu.Unlock()
	if !ok || !link.until.After(s.now()) {
		return false, nil
	}
	until := s.now().Add(sessionTime)
	setCookie(w, r, s.add(s.sessions, maxSessions, &session{role: link.role, until: until}), until)
	return true, s.save(r.Context())
}

// visitor is the sender of a request.
type visitor struct {
	*session
	role role // what he may do now
}

// of returns the sender of a request, if he is signed in.
func (s *sessions) of(r *http.Request) (visitor, bool) {
	key, ok := sessionKey(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[key]
	if !ok || found == nil || !found.until.After(s.now()) {
		return visitor{}, false
	}
	return visitor{found, found.role}, true
}

// end signs out the sender of a request. After an error, whoever has the cookie is let in again by the server that
// comes later.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) error {
	key, _ := sessionKey(r)
	s.mu.Lock()
	delete(s.sessions, key)
	s.mu.Unlock()
	setCookie(w, r, "", time.Unix(1, 0))
	return s.save(r.Context())
}

// endAll signs everybody out, and makes links invalid. It returns how many were signed in.
func (s *sessions) endAll(ctx context.Context) (int, error) {
	s.mu.Lock()
	n := len(s.sessions)
	clear(s.sessions)
	clear(s.links)
	s.mu.Unlock()
	return n, s.save(ctx)
}

// setDone keeps what a form has done for the next page of a session.
func (s *sessions) setDone(who visitor, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	who.done = text
}

// takeDone returns what a form has done, once.
func (s *sessions) takeDone(who visitor) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := who.done
	who.done = ""
	return text
}

// sessionKey returns the hash of what a request proves itself with.
func sessionKey(r *http.Request) (k key, ok bool) {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return k, false
	}
	return sha256.Sum256([]byte(cookie.Value)), true
}

// setCookie sets what requests prove themselves with.
func setCookie(w http.ResponseWriter, r *http.Request, value string, until time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", Expires: until, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// cookieName returns the name of the cookie. Browsers send cookies to all ports of a host, so it has the port on
// which this server listens.
func cookieName(r *http.Request) string {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		_, port, _ := strings.Cut(at.String()[strings.LastIndex(at.String(), "]")+1:], ":")
		return "coppice-" + port
	}
	return "coppice"
}
