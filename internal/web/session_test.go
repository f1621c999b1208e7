package web

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// signIn uses a link, and returns a request with what it gives; nil if it gives nothing.
func signIn(s *sessions, link string) *http.Request {
	w := httptest.NewRecorder()
	if ok, _ := s.begin(w, httptest.NewRequest(http.MethodGet, "/login?link="+url.QueryEscape(link), nil)); !ok {
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

// Each node of a fleet knows who is signed in at its own page.
func TestSessionsOfNodes(t *testing.T) {
	kept := memory.New()
	served := func(node string) *sessions {
		s := newSessions(time.Now)
		if err := s.load(t.Context(), kept, node); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := served("a"), served("b")
	atA, atB := signIn(a, a.newLink(operator)), signIn(b, b.newLink(operator))
	for name, want := range map[string][2]bool{"a": {true, false}, "b": {false, true}, "": {false, false}} {
		s := served(name)
		_, ofA := s.of(atA)
		if _, ofB := s.of(atB); ofA != want[0] || ofB != want[1] {
			t.Errorf("node %q knows them: %v, %v", name, ofA, ofB)
		}
	}
}

// Who is signed in is known to the server that comes later, by nothing that lets anybody in.
func TestKeptSessions(t *testing.T) {
	now, kept := time.Now(), memory.New()
	clock := func() time.Time { return now }
	served := func() *sessions {
		s := newSessions(clock)
		if err := s.load(t.Context(), kept, ""); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := served()
	acting, looking := signIn(s, s.newLink(operator)), signIn(s, s.newLink(reader))
	left := signIn(s, s.newLink(operator))
	if err := s.end(httptest.NewRecorder(), left); err != nil {
		t.Fatal(err)
	}
	records, _, err := kept.Snapshot(t.Context(), "web")
	if err != nil || len(records) != 1 {
		t.Fatal(records, err)
	}
	for _, r := range []*http.Request{acting, looking} {
		if bytes.Contains(records[0].Value, []byte(r.Cookies()[0].Value)) {
			t.Errorf("a cookie is in the store: %s", records[0].Value)
		}
	}
	s = served()
	for r, want := range map[*http.Request]role{acting: operator, looking: reader, left: ""} {
		if who, ok := s.of(r); who.role != want || ok != (want != "") {
			t.Errorf("%v %v, want %q", who, ok, want)
		}
	}
	if n, err := s.endAll(t.Context()); n != 2 || err != nil {
		t.Error(n, err)
	}
	if _, ok := s.of(acting); ok {
		t.Error("signed in after everybody was signed out")
	}
	if _, ok := served().of(acting); ok {
		t.Error("signed in at the next server after everybody was signed out")
	}
	late := signIn(s, s.newLink(operator))
	now = now.Add(sessionTime)
	if _, ok := served().of(late); ok {
		t.Error("an old session lasts")
	}
}

// A record that others have damaged lets nobody in, and is replaced.
func TestDamagedSessions(t *testing.T) {
	valid := strings.Repeat("ab", sha256.Size)
	for _, text := range []string{
		`{`, `{}`, `[1]`, `[{"hash":"","role":"operator","until":"2999-01-01T00:00:00Z"}]`,
		`[{"hash":"` + valid + `ab","role":"operator","until":"2999-01-01T00:00:00Z"}]`,
		`[{"hash":"` + valid + `","role":"root","until":"2999-01-01T00:00:00Z"}]`,
	} {
		kept := memory.New()
		put := []store.Op{{Kind: store.Put, Key: sessionsKey, Value: []byte(text)}}
		if _, err := kept.Apply(t.Context(), store.Fence{}, nil, put); err != nil {
			t.Fatal(err)
		}
		s := newSessions(time.Now)
		if err := s.load(t.Context(), kept, ""); err == nil || len(s.sessions) > 0 {
			t.Errorf("%s: %v", text, err)
		}
		r := signIn(s, s.newLink(reader))
		s = newSessions(time.Now)
		if err := s.load(t.Context(), kept, ""); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if _, ok := s.of(r); !ok {
			t.Errorf("%s: the session was not kept", text)
		}
	}
}

// A store that fails does not keep anybody out, and nobody is told that he is signed out for good.
func TestSessionsNotKept(t *testing.T) {
	failing := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
	s := newSessions(time.Now)
	if err := s.load(t.Context(), failing, ""); err != nil {
		t.Fatal(err)
	}
	r := signIn(s, s.newLink(reader))
	failing.Fail(errors.New("disk full"))
	if _, ok := s.of(r); !ok {
		t.Error("not signed in")
	}
	if err := s.end(httptest.NewRecorder(), r); err == nil {
		t.Error("no error")
	}
	if _, ok := s.of(r); ok {
		t.Error("signed in")
	}
}
