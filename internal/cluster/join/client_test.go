package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/clustertest"
	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// recorder is a server that keeps all that clients send after the handshake, and answers nothing.
type recorder struct {
	address string
	l       net.Listener
	wait    sync.WaitGroup
	got     clustertest.Buffer
}

func record(t *testing.T, config *tls.Config) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{address: l.Addr().String(), l: l}
	if config != nil {
		r.l = tls.NewListener(l, config)
	}
	r.wait.Go(func() {
		for {
			conn, err := r.l.Accept()
			if err != nil {
				return
			}
			r.wait.Go(func() {
				defer conn.Close()
				conn.SetReadDeadline(time.Now().Add(time.Second)) // the client may wait for an answer
				io.Copy(&r.got, conn)
			})
		}
	})
	return r
}

// close ends the recorder, and returns what it has got.
func (r *recorder) close() string {
	r.l.Close()
	r.wait.Wait()
	return r.got.String()
}

// tokenFor returns a token for an authority and an address.
func tokenFor(t *testing.T, authority *x509.Certificate, addresses ...string) jointoken.Token {
	t.Helper()
	s := memory.New()
	defer s.Close()
	tokens := jointoken.NewStore(s, slog.New(slog.DiscardHandler))
	token, err := tokens.Create(t.Context(), pki.Hash(authority), addresses, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A server that is no node of the token's fleet gets nothing after the handshake: no secret, and no request.
func TestSecretIsNotSent(t *testing.T) {
	f, other, key := clustertest.New(t), clustertest.New(t), clustertest.Key(t)
	good := clustertest.Template("a")
	changed := func(change func(*x509.Certificate)) *tls.Certificate {
		template := clustertest.Template("a")
		change(template)
		return clustertest.TLS(key, f.Sign(t, template, key.Public()), f.Certificate())
	}
	leaf := f.Sign(t, good, key.Public())
	show := func(c *tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{*c}} }
	for name, c := range map[string]struct {
		config *tls.Config
		err    string
	}{
		"no TLS":           {nil, ""}, // an error of TLS
		"of another fleet": {show(other.Node(t, "a").TLS()), errOtherFleet.Error()},
		"signed by itself": {show(clustertest.TLS(key, clustertest.Sign(t, good, key.Public(), good, key))),
			errOtherFleet.Error()},
		"without our authority": {show(clustertest.TLS(key, leaf)), errOtherFleet.Error()},
		"of another fleet, with our authority": {show(clustertest.TLS(key,
			other.Sign(t, good, key.Public()), f.Certificate())), "signed by unknown authority"},
		"of another fleet, with both": {show(clustertest.TLS(key,
			other.Sign(t, good, key.Public()), other.Certificate(), f.Certificate())), "signed by unknown authority"},
		"signed by itself, with our authority": {show(clustertest.TLS(key,
			clustertest.Sign(t, good, key.Public(), good, key), f.Certificate())), "signed by unknown authority"},
		"signed by a node": {show(clustertest.TLS(key,
			clustertest.Sign(t, good, key.Public(), leaf, key), leaf, f.Certificate())), "signed by unknown authority"},
		"the authority": {show(clustertest.TLS(f.Key, f.Certificate())), "that of an authority"},
		"expired": {show(changed(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Second)
		})), "has expired"},
		"for another name": {show(changed(func(c *x509.Certificate) { c.DNSNames = []string{"a.example"} })), `"a.example"`},
		"for clients": {show(changed(func(c *x509.Certificate) {
			c.ExtKeyUsage = c.ExtKeyUsage[1:]
		})), "not both"},
		"TLS 1.2": {&tls.Config{
			MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*clustertest.TLS(key, leaf, f.Certificate())},
		}, "version"},
	} {
		r := record(t, c.config)
		token := tokenFor(t, f.Certificate(), r.address)
		_, _, err := joinWithin(t.Context(), 5*time.Second, token, "b", clustertest.Key(t))
		got := r.close()
		if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), r.address) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if secret, _ := json.Marshal(token.Secret()); got != "" && (c.config != nil ||
			strings.Contains(got, strings.Trim(string(secret), `"`)) || strings.Contains(got, "POST")) {
			t.Errorf("%s: the server has got %q", name, got)
		}
	}
	// The recorder does record, if the server is a node of the fleet.
	r := record(t, show(clustertest.TLS(key, leaf, f.Certificate())))
	token := tokenFor(t, f.Certificate(), r.address)
	joinWithin(t.Context(), 5*time.Second, token, "b", clustertest.Key(t))
	if secret, _ := json.Marshal(token.Secret()); !strings.Contains(r.close(), string(secret)) {
		t.Error("the recorder does not record")
	}
}

// An authority with the right hash is checked as well.
func TestBadAuthority(t *testing.T) {
	f, key := clustertest.New(t), clustertest.Key(t)
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	unlimited := clustertest.Sign(t, template, f.Key.Public(), template, f.Key)
	leaf := clustertest.Sign(t, clustertest.Template("a"), key.Public(), unlimited, f.Key)
	server := clustertest.TLS(key, leaf, unlimited)
	r := record(t, &tls.Config{Certificates: []tls.Certificate{*server}})
	_, _, err := Join(t.Context(), tokenFor(t, unlimited, r.address), "b", key)
	if err == nil || !strings.Contains(err.Error(), "not a certificate of a fleet's authority") {
		t.Error(err)
	}
	if got := r.close(); got != "" {
		t.Errorf("%q was sent", got)
	}
}

// A node of the fleet that answers badly harms no machine.
func TestBadAnswers(t *testing.T) {
	f, other := newFleet(t), clustertest.New(t)
	key := clustertest.Key(t)
	certificate := func(f *clustertest.Fleet, name string, change ...func(*x509.Certificate)) []byte {
		template := clustertest.Template(name)
		for _, c := range change {
			c(template)
		}
		return f.Sign(t, template, key.Public()).Raw
	}
	ours, theirs := f.Certificate().Raw, other.Certificate().Raw
	answers := func(a answer) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(a) }
	}
	text := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); io.WriteString(w, text) }
	}
	elsewhere := record(t, nil)
	defer elsewhere.close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"good":               {answers(answer{certificate(f.Fleet, "a"), ours, []byte("x")}), ""},
		"nothing":            {text(200, ""), "not the JSON"},
		"garbage":            {text(200, "\x00\x1b[2J"), "not the JSON"},
		"empty object":       {text(200, "{}"), "no valid certificate"},
		"huge":               {text(200, strings.Repeat(" ", maxAnswer+1)), "larger than"},
		"damaged":            {answers(answer{certificate(f.Fleet, "a")[1:], ours, nil}), "no valid certificate"},
		"cut":                {answers(answer{certificate(f.Fleet, "a"), ours[:99], nil}), "no valid certificate"},
		"of another fleet":   {answers(answer{certificate(other, "a"), ours, nil}), "not issued by this authority"},
		"another authority":  {answers(answer{certificate(other, "a"), theirs, nil}), "not that of the token"},
		"of another node":    {answers(answer{certificate(f.Fleet, "b"), ours, nil}), `for node "b"; expected "a"`},
		"of another key":     {answers(answer{f.first.TLS().Certificate[0], ours, nil}), "not for this private key"},
		"the authority":      {answers(answer{ours, ours, nil}), "not a certificate of a node"},
		"two names":          {answers(answer{certificate(f.Fleet, "a", twoNames), ours, nil}), "or several"},
		"expired":            {answers(answer{certificate(f.Fleet, "a", expired), ours, nil}), "has expired"},
		"404":                {text(404, "no such page"), "status 404: no such page"},
		"500":                {text(500, "\x1b[2J"+strings.Repeat("x", 1<<20)), "status 500: xxx"},
		"limited":            {text(429, "try again in 7 s"), "status 429: try again in 7 s"},
		"refused":            {text(400, "bad \x1b[31mname\nline"), ": bad name line"},
		"refused, no reason": {text(403, ""), "127.0.0.1:"},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+elsewhere.address+"/join", http.StatusTemporaryRedirect)
		}, "status 307"},
		"ended": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "{")
		}, "reading the answer: unexpected EOF"},
		"long header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, "headers exceeded"},
	} {
		address := f.serve(t, c.answer)
		i, bundle, err := Join(t.Context(), tokenFor(t, f.Certificate(), address), "a", key)
		if c.err == "" {
			if err != nil || i.Name() != "a" || string(bundle) != "x" {
				t.Errorf("%s: %v, %q, %v", name, i, bundle, err)
			}
			continue
		}
		if err == nil || i != nil || bundle != nil || !strings.Contains(err.Error(), c.err) ||
			!strings.Contains(err.Error(), address) || len(err.Error()) > 700 ||
			strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: %v, %q, %v; want %q", name, i, bundle, err, c.err)
		}
	}
	if got := elsewhere.got.String(); got != "" {
		t.Errorf("the request was sent elsewhere: %q", got)
	}
}

func twoNames(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "b.node.coppice") }

func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Second)
}

// A clock that differs is named as the reason.
func TestClock(t *testing.T) {
	f := newFleet(t)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{f.first.TLS().Leaf, f.Certificate()}}
	if err := checkServer(state, pki.Hash(f.Certificate())); err != nil {
		t.Error(err)
	}
	late := clustertest.Template("a")
	late.NotBefore, late.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	state.PeerCertificates[0] = f.Sign(t, late, clustertest.Key(t).Public())
	err := checkServer(state, pki.Hash(f.Certificate()))
	if !errors.Is(err, pki.ErrNotYetValid) || !strings.Contains(err.Error(), "set the clock") {
		t.Error(err)
	}
}

// A join that is interrupted ends at once.
func TestInterrupted(t *testing.T) {
	f := newFleet(t)
	ctx, cancel := context.WithCancel(t.Context())
	address := f.serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	token := tokenFor(t, f.Certificate(), address, f.address)
	_, _, err := Join(ctx, token, "a", clustertest.Key(t))
	if !errors.Is(err, context.Canceled) || bytes.Contains([]byte(err.Error()), token.Secret()) {
		t.Error(err)
	}
}
