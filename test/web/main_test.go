// Package web runs the web page of coppice in a real browser, with a real daemon and real agents.
package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// waitTime bounds every wait of these tests; only failures take that long.
const waitTime = 2 * time.Minute

// coppice is the program that the tests run.
var coppice string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "coppice-web")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	coppice = filepath.Join(dir, "coppice")
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each process with a race detector sleeps for a second at its end
	os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	args := append([]string{"build"}, raceFlag...)
	build := exec.Command("go", append(args, "-o", coppice, "github.com/coppice-dev/coppice/cmd/coppice")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 1
	}
	code := m.Run()
	stopBrowser()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// fleet is a project whose daemon runs.
type fleet struct {
	t   testing.TB
	dir string
}

// newFleet starts the daemon of a project called "shop".
func newFleet(t testing.TB, toml ...string) *fleet {
	t.Helper()
	f := &fleet{t, t.TempDir()}
	text := "[project]\nname = \"shop\"\n\n" + strings.Join(toml, "\n")
	if err := os.WriteFile(filepath.Join(f.dir, "coppice.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.coppice("down") }) // also if not all agents could be started
	f.up()
	return f
}

// up starts the daemon, and waits until all agents have been started, some of which may fail.
func (f *fleet) up() {
	f.t.Helper()
	cmd := exec.Command(coppice, "up", "-d")
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), " is up: ") {
		f.t.Fatalf("coppice up -d: %v\n%s", err, out)
	}
}

// agent returns an agent that runs a shell script.
func agent(name, script string, more ...string) string {
	return fmt.Sprintf("[[agent]]\nname = %q\ncommand = [\"/bin/sh\", \"-c\", '''\n%s\n''']\n%s\n", name, script,
		strings.Join(more, "\n"))
}

// coppice runs a command in the project, and returns its output.
func (f *fleet) coppice(args ...string) string {
	f.t.Helper()
	cmd := exec.Command(coppice, args...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("coppice %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// killDaemon kills the daemon, and leaves the agents running.
func (f *fleet) killDaemon() {
	f.t.Helper()
	var pid int
	if _, err := fmt.Sscanf(field(f.coppice("status"), "daemon"), "pid %d", &pid); err != nil || pid < 2 {
		f.t.Fatal(pid, err)
	}
	exectest.Signal(f.t, pid, syscall.SIGKILL)
}

// field returns the text after a label of coppice status.
func field(text, label string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// site is a web page that is served.
type site struct {
	t    testing.TB
	link string // lets one browser in
	base string // the URL without a path
	port string
	out  *lines
}

// web serves the page of a fleet.
func (f *fleet) web(args ...string) *site {
	f.t.Helper()
	cmd := exec.Command(coppice, append([]string{"web", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = f.dir
	s := &site{t: f.t, out: newLines()}
	cmd.Stdout, cmd.Stderr = s.out, s.out
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	f.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil && cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
			f.t.Errorf("coppice web: %v\n%s", err, s.out)
		}
		if strings.Contains(s.out.String(), "DATA RACE") {
			f.t.Error(s.out.String())
		}
	})
	s.link = s.out.next(f.t, "http://")
	s.base = s.link[:strings.Index(s.link, "/login")]
	s.port = s.base[strings.LastIndex(s.base, ":")+1:]
	return s
}

// client returns an HTTP client that is signed in by a link.
func (s *site) client(link string) (*http.Client, *http.Cookie) {
	s.t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Get(s.local(link))
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	if len(resp.Cookies()) == 0 {
		s.t.Fatal(resp.Status)
	}
	return c, resp.Cookies()[0]
}

// local returns a URL with an address in place of the host name, for clients that do not know names below localhost.
func (s *site) local(url string) string {
	return "http://127.0.0.1:" + s.port + strings.TrimPrefix(url, s.base)
}

// lines collects output, and lets a test wait for a line.
type lines struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{} // closed and replaced with each write
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// next waits for a whole line with a prefix.
func (l *lines) next(t testing.TB, prefix string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	for {
		l.mu.Lock()
		text, changed := l.buf.String(), l.changed
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) && strings.HasSuffix(line, "\n") {
				return strings.TrimSuffix(line, "\n")
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("no line begins with %q:\n%s", prefix, text)
		}
	}
}

// newPipe makes a named pipe, from which an agent reads what the test writes.
func newPipe(t *testing.T) (name string, input *os.File) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "input")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := os.OpenFile(name, os.O_RDWR, 0) // which does not wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close() })
	return name, input
}
