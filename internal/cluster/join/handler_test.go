package join

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/authority"
	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/store"
)

// ask sends a body to a handler.
func ask(h http.Handler, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
	return w
}

// csr returns a certificate request.
func csr(t testing.TB, key crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func forName(name string) *x509.CertificateRequest {
	return &x509.CertificateRequest{DNSNames: []string{pki.ServerName(name)}}
}

func encode(t testing.TB, q request) []byte {
	t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A request that is wrong in any way registers nothing.
func TestBadRequests(t *testing.T) {
	f := newFleet(t)
	h, token, key := f.handler(), f.token(t), clustertest.Key(t)
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	two, address := forName("a"), forName("a")
	two.DNSNames, address.IPAddresses = append(two.DNSNames, "b"), []net.IP{{127, 0, 0, 1}}
	forged := csr(t, key, forName("a"))
	forged[len(forged)-1] ^= 1
	for name, c := range map[string]struct {
		name string
		csr  []byte
		err  string
	}{
		"no name":      {"", csr(t, key, forName("a")), "is missing"},
		"bad name":     {"../a", csr(t, key, forName("a")), "other characters"},
		"capital":      {"A", csr(t, key, forName("A")), `expected "a"`},
		"huge name":    {strings.Repeat("a", 9999), csr(t, key, forName("a")), "9999 bytes"},
		"no CSR":       {"a", nil, "is damaged"},
		"garbage CSR":  {"a", []byte("garbage"), "is damaged"},
		"cut CSR":      {"a", csr(t, key, forName("a"))[:100], "is damaged"},
		"forged CSR":   {"a", forged, "not signed with its own"},
		"other name":   {"a", csr(t, key, forName("b")), "for other names"},
		"two names":    {"a", csr(t, key, two), "other names"},
		"no names":     {"a", csr(t, key, &x509.CertificateRequest{}), "for other names"},
		"with address": {"a", csr(t, key, address), "other names"},
		"P-224":        {"a", csr(t, small, forName("a")), "another kind"},
		"RSA":          {"a", csr(t, large, forName("a")), "another kind"},
	} {
		w := ask(h, encode(t, request{Token: token.ID, Secret: token.Secret(), Name: c.name, CSR: c.csr}))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.err) || w.Body.Len() > 500 {
			t.Errorf("%s: %d %q, want %q", name, w.Code, w.Body, c.err)
		}
	}
	for body, want := range map[string]int{
		"": 400, "null": 403, "{": 400, "[]": 400, `{"secret": 7}`: 400, `{"secret": "?"}`: 400, "{}": 403,
		`{"token": "` + token.Text() + `"}`: 403, `{"name": "` + strings.Repeat("x", maxRequest) + `"}`: 413,
		strings.Repeat("[", maxRequest-1): 400, strings.Repeat(" ", maxRequest+1): 413,
	} {
		if w := ask(h, []byte(body)); w.Code != want || w.Body.Len() > 500 {
			t.Errorf("%.50q: %d %q, want %d", body, w.Code, w.Body, want)
		}
	}
	if f.registered() != 1 {
		t.Errorf("%d nodes", f.registered())
	}
	f.checkLog(t)
	if strings.Contains(f.log.String(), token.Text()[60:90]) {
		t.Error("the log has a token that was sent in place of its ID")
	}
	good := encode(t, request{Token: token.ID, Secret: token.Secret(), Name: "a", CSR: csr(t, key, forName("a"))})
	if w := ask(h, good); w.Code != 200 || w.Header().Get("Connection") != "close" {
		t.Errorf("%d %q, %v", w.Code, w.Body, w.Header())
	}
	if f.registered() != 2 {
		t.Errorf("%d nodes", f.registered())
	}
}

// The reasons of failures are for the log, and not for the machine; a node is registered last.
func TestFailures(t *testing.T) {
	f := newFleet(t)
	token, key := f.token(t), clustertest.Key(t)
	good := encode(t, request{Token: token.ID, Secret: token.Secret(), Name: "a", CSR: csr(t, key, forName("a"))})
	internal := fmt.Errorf("internal reason: %w", store.ErrClosed)
	for name, set := range map[string]func(h *Handler){
		"bundle":       func(*Handler) { f.bundle = func() ([]byte, error) { return nil, internal } },
		"large bundle": func(*Handler) { f.bundle = func() ([]byte, error) { return make([]byte, MaxBundle+1), nil } },
		"register":     func(*Handler) { f.broken = internal },
		"check": func(h *Handler) {
			h.o.Check = func(context.Context, string, []byte) error { return internal }
		},
		"authority": func(h *Handler) {
			h.o.Authority = func(context.Context) (*authority.Authority, error) { return nil, internal }
		},
	} {
		h := f.handler()
		set(h)
		if w := ask(h, good); w.Code != 503 || strings.TrimSpace(w.Body.String()) != errInternal.Error() {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
		if f.registered() != 1 {
			t.Errorf("%s: %d nodes", name, f.registered())
		}
		f.broken, f.bundle = nil, func() ([]byte, error) { return make([]byte, MaxBundle), nil }
	}
	if n := strings.Count(f.log.String(), "cannot let a machine join"); n != 5 {
		t.Errorf("%d errors are logged:\n%s", n, f.log)
	}
	f.bundle = func() ([]byte, error) { return bytes.Repeat([]byte{0xff}, MaxBundle), nil }
	if _, bundle, err := Join(t.Context(), token, "a", key); err != nil || len(bundle) != MaxBundle {
		t.Errorf("%d bytes, %v", len(bundle), err)
	}
}

// A request with a valid token, whatever else it says, is refused or answered with a certificate for its name.
func FuzzRequest(f *testing.F) {
	fleet := clustertest.New(f)
	key := clustertest.Key(f)
	f.Add("a", csr(f, key, forName("a")))
	f.Add("b", csr(f, key, forName("a")))
	f.Add("", []byte(nil))
	registered := ""
	h := NewHandler(Options{
		Authority: having(fleet.Authority),
		Check:     func(context.Context, string, []byte) error { return nil },
		Register: func(_ context.Context, name string, _ [32]byte) error {
			registered = name
			return nil
		},
		Bundle: func(context.Context, string) ([]byte, error) { return nil, nil },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	f.Fuzz(func(t *testing.T, name string, csr []byte) {
		registered = ""
		body := encode(t, request{Name: name, CSR: csr})
		w := ask(h, body)
		if w.Code != http.StatusOK {
			if registered != "" || w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("%d %q, and %q is registered", w.Code, w.Body, registered)
			}
			return
		}
		var a answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(a.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := pki.Node(c); got != name || registered != name || err != nil {
			t.Errorf("%q for %q, %v", got, name, err)
		}
	})
}

// Any body is answered.
func FuzzBody(f *testing.F) {
	fleet := clustertest.New(f)
	h := NewHandler(Options{
		Authority: having(fleet.Authority), Logger: slog.New(slog.DiscardHandler),
		Check: func(context.Context, string, []byte) error { return jointoken.ErrRefused },
	})
	f.Add([]byte(`{"token": "aaaaaaaa", "secret": "AAAA"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		switch w := ask(h, body); w.Code {
		case 400, 403, 413, 429:
		default:
			t.Errorf("%q: %d %q", body, w.Code, w.Body)
		}
	})
}
