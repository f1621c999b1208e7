package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// send sends a request of somebody who is signed in, with other headers, and returns the status and the answer.
func (s *site) send(
	c *http.Client, cookie *http.Cookie, method, path string, form url.Values, headers map[string]string,
) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.local(s.base+path),
		strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != nil {
		req.AddCookie(cookie)
	}
	for name, value := range headers {
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Only who has a link gets in, and only from the page itself.
func TestWhoGetsIn(t *testing.T) {
	f := newFleet(t, agent("api", `exec sleep 1000`))
	s := f.web()
	c, cookie := s.client(s.link)
	stop := url.Values{"action": {"stop"}, "path": {"shop/api"}}
	for _, test := range []struct {
		name, method, path string
		cookie             *http.Cookie
		form               url.Values
		headers            map[string]string
		status             int
	}{
		{"signed in", "GET", "/tree", cookie, nil, nil, 200},
		{"nobody", "GET", "/tree", nil, nil, nil, 401},
		{"nobody acts", "POST", "/act", nil, stop, nil, 401},
		{"another cookie", "GET", "/tree", &http.Cookie{Name: cookie.Name, Value: "x"}, nil, nil, 401},
		{"the link again", "GET", strings.TrimPrefix(s.link, s.base), nil, nil, nil, 401},
		{"no link", "GET", "/login", nil, nil, nil, 401},
		{"DNS rebinding", "GET", "/tree", cookie, nil, map[string]string{"Host": "evil.example:" + s.port}, 421},
		{"DNS rebinding acts", "POST", "/act", cookie, stop, map[string]string{"Host": "evil.example"}, 421},
		{"another site", "POST", "/act", cookie, stop, map[string]string{"Origin": "http://evil.example"}, 403},
		{"another port", "POST", "/act", cookie, stop, map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
		{"a frame", "POST", "/act", cookie, stop, map[string]string{"Origin": "null"}, 403},
		{"another site, by kind", "POST", "/act", cookie, stop, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"another port, by kind", "POST", "/act", cookie, stop, map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"acting by GET", "GET", "/act?action=stop&path=shop/api", cookie, nil, nil, 404},
		{"no such path", "GET", "/etc/passwd", cookie, nil, nil, 404},
		{"no such asset", "GET", "/assets/x/..%2f..%2fweb.go", cookie, nil, nil, 404},
		{"no such agent", "GET", "/agent/shop/nobody", cookie, nil, nil, 404},
		{"no such action", "POST", "/act", cookie, url.Values{"action": {"kill"}, "path": {"shop/api"}}, nil, 400},
		{"a large form", "POST", "/act", cookie, url.Values{"path": {strings.Repeat("x", 2<<20)}}, nil, 400},
		{"the live stream of nothing", "GET", "/live?page=%zz", cookie, nil, nil, 400},
		{"the live stream of elsewhere", "GET", "/live?page=/nowhere", cookie, nil, nil, 400},
	} {
		status, body := s.send(c, test.cookie, test.method, test.path, test.form, test.headers)
		if status != test.status {
			t.Errorf("%s: %d, want %d: %.300s", test.name, status, test.status, body)
		}
	}
	if out := f.coppice("ps"); strings.Contains(out, "stopped") {
		t.Error(out)
	}
	if status, body := s.send(c, cookie, "POST", "/act", stop, nil); status != http.StatusSeeOther {
		t.Errorf("%d: %s", status, body)
	}
	if out := f.coppice("ps"); !strings.Contains(out, "stopped") {
		t.Error(out)
	}
}

// Who came by a read-only link sees everything, and can do nothing.
func TestReadOnly(t *testing.T) {
	f := newFleet(t, agent("api", `coppice agent ask "Shall I?" --option yes --option no; exec sleep 1000`))
	s := f.web("--read-only")
	c, cookie := s.client(s.link)
	for _, path := range []string{"/", "/tree", "/agent/shop/api", "/events", "/inbox", "/tasks", "/work", "/cost", "/config", "/system"} {
		status, body := s.send(c, cookie, "GET", path, nil, nil)
		if status != 200 || strings.Contains(body, `method="post"`) || strings.Contains(body, `name="action"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for path, form := range map[string]url.Values{
		"/act":        {"action": {"stop"}, "path": {"shop/api"}},
		"/do/answer":  {"name": {"q-1"}, "option": {"yes"}},
		"/do/archive": {"name": {"m-1"}},
		"/do/reload":  {},
		"/mail":       {"name": {"m-1"}},
	} {
		if status, body := s.send(c, cookie, "POST", path, form, nil); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if out := f.coppice("inbox"); !strings.Contains(out, "Shall I?") {
		t.Error(out)
	}
}

// An agent can serve the page, but whoever uses that acts as the agent, which may not do what people may.
func TestAgentServesPage(t *testing.T) {
	f := newFleet(t, agent("other", `exec sleep 1000`),
		agent("server", `exec coppice web --listen 127.0.0.1:0`, `ready = { log = "http://" }`))
	link := ""
	for line := range strings.Lines(f.coppice("logs", "server")) {
		if at := strings.Index(line, "http://"); at >= 0 {
			link = strings.TrimSpace(line[at:])
		}
	}
	s := &site{t: t, link: link, base: link[:strings.Index(link, "/login")]}
	s.port = s.base[strings.LastIndex(s.base, ":")+1:]
	c, cookie := s.client(link)
	s.send(c, cookie, "POST", "/act", url.Values{"action": {"stop"}, "path": {"shop/other"}}, nil)
	if _, body := s.send(c, cookie, "GET", "/", nil, nil); !strings.Contains(body, "not allowed") {
		t.Error(body)
	}
	if out := f.coppice("ps"); strings.Contains(out, "stopped") {
		t.Error(out)
	}
}

// However many connections there are, and however slowly they are read, the page answers, and so does the daemon.
func TestManyConnections(t *testing.T) {
	f := newFleet(t, agent("api", `while :; do echo 'a line of output that is not read'; done`))
	s := f.web()
	c, cookie := s.client(s.link)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range 20 { // streams that nobody reads
		fmt.Fprintf(dial(), "GET /live?page=/agent/shop/api HTTP/1.1\r\nHost: localhost\r\nCookie: %s=%s\r\n\r\n",
			cookie.Name, cookie.Value)
	}
	for range 10_000 {
		conn := dial()
		io.WriteString(conn, "GET / HT")
		conn.Close()
	}
	for range 500 { // which stay open
		io.WriteString(dial(), "GET / HT")
	}
	began := time.Now()
	if status, body := s.send(c, cookie, "GET", "/", nil, nil); status != 200 {
		t.Errorf("%d: %s", status, body)
	}
	if took := time.Since(began); took > waitTime/2 {
		t.Errorf("the answer took %v", took)
	}
	if out := f.coppice("ps"); !strings.Contains(out, "running") {
		t.Error(out)
	}
}

// Too many open pages are refused, and those that are open go on.
func TestManyStreams(t *testing.T) {
	f := newFleet(t, agent("api", `exec sleep 1000`))
	s := f.web()
	_, cookie := s.client(s.link)
	refused := 0
	for range 140 {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /live?page=/tree HTTP/1.1\r\nHost: localhost\r\nCookie: %s=%s\r\n\r\n", cookie.Name,
			cookie.Value)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		} else if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	if refused != 140-128 {
		t.Errorf("%d were refused", refused)
	}
}
