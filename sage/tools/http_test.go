package tools

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func client(t *testing.T, timeout time.Duration) *HTTP {
	h := NewHTTP(timeout)
	t.Cleanup(func() { h.Close() })
	return h
}

func serve(t *testing.T, f http.HandlerFunc) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func TestHTTP(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		w.WriteHeader(418)
		fmt.Fprintf(w, "%s %s %s %q %s %s", r.Method, r.URL, r.Header.Get("X-Key"), body, r.Header.Get("Content-Type"), r.Host)
	})
	host := strings.TrimPrefix(url, "http://")
	h, ctx := client(t, 0), bounded(t)
	headers := map[string]string{"x-key": "k"}
	for want, do := range map[string]func() (Response, error){
		`GET /a?b=c k ""  ` + host:                        func() (Response, error) { return h.Do(ctx, "GET", url+"/a?b=c#d", "", headers) },
		`DELETE /a k ""  ` + host:                         func() (Response, error) { return h.Do(ctx, "DELETE", url+"/a", "", headers) },
		`POST /a k "é" text/plain; charset=utf-8 ` + host: func() (Response, error) { return h.Do(ctx, "POST", url+"/a", "é", headers) },
		`PUT /a  "{}" application/json elsewhere.example`: func() (Response, error) {
			return h.Do(ctx, "PUT", url+"/a", "{}", map[string]string{"CONTENT-TYPE": "application/json", "host": "elsewhere.example"})
		},
	} {
		r, err := do()
		if err != nil || r.Status != 418 || r.Body != want || r.Headers["x-two"] != "a, b" {
			t.Errorf("%+v, %v; want %s", r, err, want)
		}
	}
}

func TestHTTPRefuses(t *testing.T) {
	h, ctx := client(t, 0), bounded(t)
	for url, want := range map[string]string{
		"":                              `the scheme is ""`,
		"example.com":                   `the scheme is ""`,
		"file:///etc/passwd":            `the scheme is "file": only http and https can be asked`,
		"gopher://x":                    `the scheme is "gopher"`,
		"http://":                       "names no host",
		"http://:80/":                   "names no host",
		"http://a b/":                   "not a URL",
		"http://u:hunter2@x/%zz":        "not a URL",
		"http://127.0.0.1:1\n":          "not a URL",
		"http://u:hunter2@127.0.0.1:1/": "refused",
	} {
		_, err := h.Do(ctx, "GET", url, "", nil)
		refused(t, url, err, want)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %v", err)
		}
	}
	for name, value := range map[string]string{"Content-Length": "1", "transfer-encoding": "chunked", "Connection": "close", "accept-encoding": "br", "a b": "c", "X": "a\r\nY: b", "": "x"} {
		if _, err := h.Do(ctx, "GET", "http://127.0.0.1:1/", "", map[string]string{name: value}); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("header %q: %q: %v", name, value, err)
		}
	}
	_, err := h.Do(ctx, "POST", "http://127.0.0.1:1/", strings.Repeat("x", MaxBody+1), nil)
	refused(t, "a large body", err, "the body has 10485761 bytes, at most 10485760 are sent")
	if _, err := h.Do(stopped(), "GET", "http://127.0.0.1:1/", "", nil); !errors.Is(err, errStopped) {
		t.Error(err)
	}
}

func TestHTTPHostileAnswers(t *testing.T) {
	raw := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, answer)
			c.Close()
		}
	}
	endless := func(w io.Writer) {
		block := make([]byte, 1<<20)
		for range 20 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for want, f := range map[string]http.HandlerFunc{
		"the body of the answer has more than 10485760 bytes": func(w http.ResponseWriter, r *http.Request) { endless(w) },
		"more than 10485760 bytes": func(w http.ResponseWriter, r *http.Request) { // 20 MiB in 20 KiB
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			endless(z)
			z.Close()
		},
		`of status 200 and type "image/png", is not UTF-8 text (4 bytes)`: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			io.WriteString(w, "\x89PNG")
		},
		"broke off after 4 bytes": raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
		"malformed":               raw("220 smtp ready\r\n"),
		"EOF":                     raw(""),
		"header":                  raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n"),
		"more than 10 redirects":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) },
		`a redirect to "file:///etc/passwd" is not followed`: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		},
	} {
		_, err := client(t, 0).Do(bounded(t), "GET", serve(t, f)+"/", "", nil)
		refused(t, want, err, want)
	}
}

func TestHTTPTime(t *testing.T) {
	began := make(chan struct{}, 9)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		began <- struct{}{}
		<-r.Context().Done()
	})
	_, err := client(t, 50*time.Millisecond).Do(bounded(t), "GET", url, "", nil)
	refused(t, "slow", err, "it took longer than 50ms (see SAGE_HTTP_TIMEOUT)")
	<-began
	ctx, cancel := context.WithCancelCause(bounded(t))
	go func() {
		<-began
		cancel(errStopped)
	}()
	if _, err := client(t, 0).Do(ctx, "GET", url, "", nil); !errors.Is(err, errStopped) {
		t.Error(err)
	}
}

// Headers that identify the sender are not sent to another host.
func TestHTTPRedirects(t *testing.T) {
	var got http.Header
	stranger := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header })
	var own string
	own = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, stranger, http.StatusTemporaryRedirect)
		case "/near":
			http.Redirect(w, r, own+"/here", http.StatusFound)
		default:
			got = r.Header
		}
	})
	headers := map[string]string{"Authorization": "Bearer k", "Cookie": "k", "X-Api-Key": "k", "Accept": "text/plain"}
	h := client(t, 0)
	if _, err := h.Do(bounded(t), "POST", own+"/away", "body", headers); err != nil {
		t.Fatal(err)
	}
	for name := range headers {
		if (got.Get(name) != "") != (name == "Accept") {
			t.Errorf("the stranger was told %s: %q", name, got.Get(name))
		}
	}
	if _, err := h.Do(bounded(t), "GET", own+"/near", "", headers); err != nil || got.Get("X-Api-Key") != "k" || got.Get("Authorization") != "Bearer k" {
		t.Errorf("%v, %v", got, err)
	}

	secure := httptest.NewTLSServer(http.RedirectHandler(stranger, http.StatusFound))
	defer secure.Close()
	h.transport.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	_, err := h.Do(bounded(t), "GET", secure.URL, "", nil)
	refused(t, "from https to http", err, "a redirect from https")
}
