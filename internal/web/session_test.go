package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// signIn uses a link, and returns a request with what it gives; nil if it gives nothing.
func signIn(s *sessions, link string) *http.Request {
	w := httptest.NewRecorder()
	if !s.begin(w, httptest.NewRequest(http.MethodGet, "/login?link="+url.QueryEscape(link), nil)) {
		return nil
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(w.Result().Cookies()[0])
	return r
}

// A link works once and for a while, and so does what it gives.
func TestSessions(t *testing.T) {
	now := time.Now()
	s := newSessions(func() time.Time { return now })
	link := s.newLink(reader)
	for _, wrong := range []string{"", "x", link + "x"} {
		if signIn(s, wrong) != nil {
			t.Errorf("%q lets in", wrong)
		}
	}
	r := signIn(s, link)
	who, ok := s.of(r)
	if !ok || who.role != reader {
		t.Fatal(who, ok)
	}
	if signIn(s, link) != nil {
		t.Error("the link works twice")
	}
	if _, ok := s.of(httptest.NewRequest(http.MethodGet, "/", nil)); ok {
		t.Error("a request without a cookie is let in")
	}

	late := s.newLink(operator)
	now = now.Add(linkTime)
	if signIn(s, late) != nil {
		t.Error("an old link works")
	}
	now = now.Add(sessionTime)
	if _, ok := s.of(r); ok {
		t.Error("an old session lasts")
	}

	r = signIn(s, s.newLink(operator))
	s.end(httptest.NewRecorder(), r)
	if _, ok := s.of(r); ok {
		t.Error("who has signed out is signed in")
	}
}

// Links and sessions are bounded; those that end first give way.
func TestManySessions(t *testing.T) {
	now := time.Now()
	s := newSessions(func() time.Time { now = now.Add(time.Millisecond); return now })
	first := s.newLink(operator)
	for range maxLinks {
		s.newLink(operator)
	}
	if len(s.links) != maxLinks || signIn(s, first) != nil {
		t.Errorf("%d links", len(s.links))
	}
	r := signIn(s, s.newLink(operator))
	for range maxSessions {
		signIn(s, s.newLink(reader))
	}
	if _, ok := s.of(r); len(s.sessions) != maxSessions || ok {
		t.Errorf("%d sessions", len(s.sessions))
	}
}

// A form leads back only to this server.
func TestLocal(t *testing.T) {
	for path, want := range map[string]string{
		"/tree?q=a#x": "/tree?q=a#x", "": "/", "tree": "/", "//evil.example": "/", "/\\evil.example": "/",
		"http://evil.example/": "/", "javascript:alert(1)": "/", "/%zz": "/", "///evil.example": "/",
	} {
		if got := local(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
