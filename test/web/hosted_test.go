package web

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// webTable returns a [web] table, with more lines.
func webTable(address string, more ...string) string {
	return fmt.Sprintf("[web]\nlisten = %q\n%s\n", address, strings.Join(more, "\n"))
}

// hosted returns the page that the daemon of a fleet serves, with a new link.
func (f *fleet) hosted(args ...string) *site {
	f.t.Helper()
	link, _, _ := strings.Cut(f.coppice(append([]string{"web"}, args...)...), "\n")
	at := strings.Index(link, "/login?")
	if at < 0 {
		f.t.Fatalf("no link: %s", link)
	}
	s := &site{t: f.t, link: link, base: link[:at]}
	s.port = s.base[strings.LastIndex(s.base, ":")+1:]
	return s
}

// fails runs a command that fails, and returns its output.
func (f *fleet) fails(args ...string) string {
	f.t.Helper()
	cmd := exec.Command(coppice, args...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		f.t.Fatalf("coppice %s: %s", strings.Join(args, " "), out)
	}
	return string(out)
}

// The page of the daemon goes on where it was after the daemon was killed, without a new link.
func TestHosted(t *testing.T) {
	f := newFleet(t, webTable(freeAddress(t)), agent("worker", `exec sleep 1000`))
	s := f.hosted()
	b := newTab(t)
	b.signIn(s)
	b.live(s.base + "/tree")
	eval[bool](b, "window.loaded = true")
	f.killDaemon()
	b.await(`!document.getElementById("down").hidden`)
	f.up()
	f.coppice("stop", "worker")
	b.await(`document.getElementById("n-shop%2Fworker").innerText.includes("stopped")`)
	if !eval[bool](b, "window.loaded") {
		t.Error("the page was loaded again")
	}
	f.coppice("down")
	b.await(`!document.getElementById("down").hidden`)
	f.up()
	b.await(`document.getElementById("down").hidden`)
}

// Who has signed in at the page of the daemon stays signed in, with the rights of the link, until all are signed out.
func TestHostedSessions(t *testing.T) {
	address := freeAddress(t)
	f := newFleet(t, webTable(address), agent("api", `exec sleep 1000`))
	s := f.hosted()
	if s.base[strings.LastIndex(s.base, ":"):] != address[strings.LastIndex(address, ":"):] {
		t.Errorf("%s, want the port of %s", s.base, address)
	}
	c, acting := s.client(s.link)
	reading := f.hosted("--read-only")
	_, looking := reading.client(reading.link)
	act := func(cookie *http.Cookie, action string) int {
		status, _ := s.send(c, cookie, "POST", "/act", url.Values{"action": {action}, "path": {"shop/api"}}, nil)
		return status
	}
	f.killDaemon()
	f.up()
	if status, _ := s.send(c, looking, "GET", "/tree", nil, nil); status != http.StatusOK {
		t.Error(status)
	}
	if status := act(looking, "stop"); status != http.StatusForbidden {
		t.Error(status)
	}
	if status := act(acting, "stop"); status != http.StatusSeeOther {
		t.Error(status)
	}

	// Once the page is read-only, nobody acts any longer.
	f.coppice("down")
	f.rewrite(webTable(address), webTable(address, "read_only = true"))
	f.up()
	if status := act(acting, "start"); status != http.StatusForbidden {
		t.Error(status)
	}
	if out := f.coppice("web"); !strings.Contains(out, "the page is read-only") {
		t.Error(out)
	}

	unused := f.hosted()
	if out := f.coppice("web", "--sign-out"); out != "2 browsers signed out\n" {
		t.Error(out)
	}
	for range 2 {
		for _, cookie := range []*http.Cookie{acting, looking} {
			if status, _ := s.send(c, cookie, "GET", "/tree", nil, nil); status != http.StatusUnauthorized {
				t.Error(status)
			}
		}
		if status, _ := s.send(c, nil, "GET", strings.TrimPrefix(unused.link, unused.base), nil, nil); status != 401 {
			t.Error(status)
		}
		f.killDaemon()
		f.up()
	}
}

// rewrite replaces a part of the file.
func (f *fleet) rewrite(before, after string) {
	f.t.Helper()
	path := filepath.Join(f.dir, "coppice.toml")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), before) {
		f.t.Fatalf("%v\n%s", err, text)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// An address that is in use keeps neither the daemon nor its agents from working, and the command says so.
func TestHostedElsewhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := newFleet(t, webTable(l.Addr().String()), agent("api", `exec sleep 1000`))
	out := f.fails("web")
	for _, want := range []string{"the web page is not served", l.Addr().String(), "in use", "--listen"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q: %s", want, out)
		}
	}
	s := f.web() // with an address of its own
	c, cookie := s.client(s.link)
	if status, _ := s.send(c, cookie, "GET", "/tree", nil, nil); status != http.StatusOK {
		t.Error(status)
	}
}

// An agent gets no link to the page of the daemon, and signs nobody out.
func TestAgentGetsNoLink(t *testing.T) {
	f := newFleet(t, webTable(freeAddress(t)),
		agent("thief", `coppice web --sign-out; echo "code $?"; exec coppice web`, `ready = { log = "http://" }`))
	s := f.hosted()
	c, cookie := s.client(s.link)
	out := f.coppice("logs", "thief")
	if !strings.Contains(out, "code 77") || strings.Contains(out, ":"+s.port) {
		t.Error(out)
	}
	if status, _ := s.send(c, cookie, "GET", "/tree", nil, nil); status != http.StatusOK {
		t.Error(status)
	}
	if out := f.coppice("events", "--type", "access.*"); !strings.Contains(out, "web/links") ||
		!strings.Contains(out, "web/sessions") {
		t.Error(out)
	}
}

// Without [web] nobody is signed in anywhere, and flags that do not fit are refused.
func TestNotHosted(t *testing.T) {
	f := newFleet(t, agent("api", `exec sleep 1000`))
	if out := f.fails("web", "--sign-out"); !strings.Contains(out, "the daemon serves no web page") {
		t.Error(out)
	}
	out := f.fails("web", "--sign-out", "--open")
	if !strings.Contains(out, "--sign-out and --open do not go together") {
		t.Error(out)
	}
}
