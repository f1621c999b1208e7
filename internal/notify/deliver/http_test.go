package deliver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/spec"
)

// received is a request that a server has got.
type received struct {
	method, path string
	header       http.Header
	body         []byte
}

// server answers each request by do, and returns what it gets.
func server(t *testing.T, do http.HandlerFunc) (url string, got chan received) {
	t.Helper()
	got = make(chan received, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		got <- received{q.Method, q.URL.Path, q.Header, body}
		if do != nil {
			do(w, q)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func message() *notify.Message {
	return &notify.Message{Version: 1, ID: "0123", Notify: "n", Kind: notify.KindNeeds, Project: "shop",
		At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Title: "shop: t/a asks: <!channel> & *now*?",
		Text: "- t/a asks: <!channel> <https://evil.example|click> & *now*?\n  coppice answer q-1",
		Needs: []notify.Need{{Subject: "q-1", State: "question", Text: "t/a asks: <!channel>", From: "t/a",
			Command: "coppice answer q-1"}}}
}

func decode(t *testing.T, body []byte) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The shape of what a webhook gets is stable.
func TestWebhook(t *testing.T) {
	url, got := server(t, nil)
	t.Setenv("HOOK_TOKEN", "s3cret\n")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("k3y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &spec.Notify{Name: "n", Via: spec.Webhook, URL: url + "/hook", Token: spec.Secret{Env: "HOOK_TOKEN"},
		Signature: spec.Secret{File: key}}
	if err := New(Options{}).Send(t.Context(), n, message()); err != nil {
		t.Fatal(err)
	}
	q := <-got
	const body = `{"version":1,"id":"0123","notify":"n","kind":"needs","project":"shop","at":"2026-11-29T12:00:00Z",` +
		`"title":"shop: t/a asks: \u003c!channel\u003e \u0026 *now*?",` +
		`"text":"- t/a asks: \u003c!channel\u003e \u003chttps://evil.example|click\u003e \u0026 *now*?\n  coppice answer q-1",` +
		`"urgent":false,"needs":[{"subject":"q-1","state":"question","text":"t/a asks: \u003c!channel\u003e","from":"t/a",` +
		`"command":"coppice answer q-1"}],"more":0}`
	if string(q.body) != body || q.method != http.MethodPost || q.path != "/hook" {
		t.Errorf("%s %s\n%s\nwant\n%s", q.method, q.path, q.body, body)
	}
	sum := hmac.New(sha256.New, []byte("k3y"))
	sum.Write(q.body)
	for name, want := range map[string]string{
		"Authorization": "Bearer s3cret", "Content-Type": "application/json", "Coppice-Message": "0123",
		"X-Coppice-Signature-256": "sha256=" + hex.EncodeToString(sum.Sum(nil)), "User-Agent": "coppice",
	} {
		if q.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.header.Get(name), want)
		}
	}
	n.Header = "X-Api-Key"
	if err := New(Options{}).Send(t.Context(), n, message()); err != nil {
		t.Fatal(err)
	}
	if q := <-got; q.header.Get("X-Api-Key") != "s3cret" || q.header.Get("Authorization") != "" {
		t.Errorf("%v", q.header)
	}
}

func TestNtfy(t *testing.T) {
	url, got := server(t, nil)
	t.Setenv("NTFY_TOKEN", "tk_1")
	n := &spec.Notify{Via: spec.Ntfy, URL: url + "/below/alerts", Token: spec.Secret{Env: "NTFY_TOKEN"}, Priority: 4,
		Tags: []string{"robot", "x"}, Click: "https://example.com"}
	m := message()
	m.Title = "a\r\nX-Injected: 1"
	m.Text += strings.Repeat("ü", 10_000)
	if err := New(Options{}).Send(t.Context(), n, m); err != nil {
		t.Fatal(err)
	}
	q := <-got
	v := decode(t, q.body)
	if q.path != "/below/" || v["topic"] != "alerts" || v["title"] != m.Title || v["priority"] != 4.0 ||
		v["click"] != "https://example.com" || len(v["tags"].([]any)) != 2 ||
		q.header.Get("Authorization") != "Bearer tk_1" || q.header.Get("X-Injected") != "" {
		t.Errorf("%s %v %v", q.path, v, q.header)
	}
	if text := v["message"].(string); !strings.HasPrefix(text, "- t/a asks") || len(text) > 4096 {
		t.Errorf("%d bytes: %.100s", len(text), text)
	}
	n.URL = url
	if err := New(Options{}).Send(t.Context(), n, m); err == nil || !strings.Contains(err.Error(), "has no topic") {
		t.Errorf("%v", err)
	}
}

// Nothing that an agent writes is a mention, a link or markup.
func TestSlack(t *testing.T) {
	url, got := server(t, nil)
	t.Setenv("SLACK_URL", url+"/services/T0/B0/xyz")
	n := &spec.Notify{Via: spec.Slack, URLFrom: spec.Secret{Env: "SLACK_URL"}}
	if err := New(Options{}).Send(t.Context(), n, message()); err != nil {
		t.Fatal(err)
	}
	q := <-got
	v := decode(t, q.body)
	want := map[string]any{
		"text": "shop: t/a asks: &lt;!channel&gt; &amp; *now*?\n- t/a asks: &lt;!channel&gt; " +
			"&lt;https://evil.example|click&gt; &amp; *now*?\n  coppice answer q-1",
		"mrkdwn": false, "parse": "none", "link_names": false, "unfurl_links": false, "unfurl_media": false,
	}
	if q.path != "/services/T0/B0/xyz" || !maps.Equal(v, want) {
		t.Errorf("%s\n%v\nwant\n%v", q.path, v, want)
	}
}

// A hostile server costs little time and memory, gets no token of another host, and no error has a secret.
func TestHostileServer(t *testing.T) {
	t.Setenv("TOKEN", "s3cret")
	elsewhere, stolen := server(t, nil)
	endless := func(w http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name string
		do   http.HandlerFunc
		want string // in the error; empty for none
	}{
		{"redirect", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere, http.StatusTemporaryRedirect)
		}, "the server answers with 307, a redirect, which is not followed"},
		{"an endless answer", endless, ""},
		{"an endless error", func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			endless(w, q)
		}, "the server answers with 502"},
		{"a large header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, "exceeded"},
		{"an echo", func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "bad token\n\x1b[31m"+q.Header.Get("Authorization"))
		}, "the server answers with 403: bad token Bearer [secret]"},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, _ := server(t, c.do)
			t.Setenv("URL", url+"/T0/hidden")
			n := &spec.Notify{Via: spec.Webhook, URLFrom: spec.Secret{Env: "URL"}, Token: spec.Secret{Env: "TOKEN"}}
			err := New(Options{}).Send(t.Context(), n, message())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "hidden")) {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
	select {
	case q := <-stolen:
		t.Errorf("another host got %v", q)
	default:
	}
}

// A server that does not answer is given up, and so is one that nobody waits for.
func TestNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts nothing
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("given up"))
	defer cancel()
	n := &spec.Notify{Via: spec.Webhook, URL: "http://" + l.Addr().String()}
	if err := New(Options{}).Send(ctx, n, message()); err == nil || err.Error() != "given up" {
		t.Errorf("%v", err)
	}
}

func TestPing(t *testing.T) {
	url, got := server(t, nil)
	t.Setenv("PING", url+"/uuid")
	d := spec.Deadman{URLFrom: spec.Secret{Env: "PING"}}
	if err := Ping(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if q := <-got; q.method != http.MethodGet || q.path != "/uuid" || len(q.body) != 0 {
		t.Errorf("%+v", q)
	}
	gone, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	if err := Ping(t.Context(), spec.Deadman{URL: gone}); err == nil || err.Error() != "the server answers with 404" {
		t.Errorf("%v", err)
	}
	if err := Ping(t.Context(), spec.Deadman{URLFrom: spec.Secret{Env: "NOTIFY_MISSING"}}); err == nil {
		t.Error("nothing was pinged, without an error")
	}
}
