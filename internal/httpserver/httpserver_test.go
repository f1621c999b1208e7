package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines passes on each line of a logger.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// An address that is in use is reported once, and tried again until the end.
func TestRunInUse(t *testing.T) {
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	log, done := make(lines, 1), make(chan struct{})
	s := &Server{Name: "the tests", Logger: slog.New(slog.NewTextHandler(log, nil))}
	go func() {
		s.Run(ctx, l.Addr().String())
		close(done)
	}()
	if line := <-log; !strings.Contains(line, "cannot serve the tests") ||
		!strings.Contains(line, "address already in use") {
		t.Error(line)
	}
	cancel()
	<-done
	l.Close()
}

func TestHosts(t *testing.T) {
	s := &Server{Name: "the tests", Hosts: []string{"coppice.example.org"}}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "LOCALHOST.:80": true, "a.localhost:1": true, "127.0.0.1:80": true,
		"[::1]:80": true, "[::1]": true, "192.0.2.1": true, "Coppice.Example.org:443": true,
		"": false, ":80": false, "example.org": false, "coppice.example.org.evil.example": false,
		"127.0.0.1.nip.io": false,
		"notlocalhost":     false, "localhost.example": false, "2130706433": false,
	} {
		if got := s.answersFor(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	if s.Hosts = []string{"*"}; !s.answersFor("anything.example") {
		t.Error("* does not answer for all")
	}
}

// A name of somebody else is refused before the handler sees the request.
func TestRebinding(t *testing.T) {
	at := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "secret")
	})})
	for host, status := range map[string]string{"localhost": "200", "evil.example": "421"} {
		conn := dial(t, at)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status) ||
			strings.Contains(string(answer), "secret") != (status == "200") {
			t.Errorf("%s: %s, %v", host, answer, err)
		}
	}
}

// The handler also gets what net/http would answer by itself.
func TestOptions(t *testing.T) {
	conn := dial(t, serve(t, &Server{Handler: http.NotFoundHandler()}))
	io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 404") {
		t.Errorf("%s, %v", answer, err)
	}
}

// A request that panics ends alone, and the log has the reason.
func TestPanic(t *testing.T) {
	log := make(lines, 1)
	at := serve(t, &Server{
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("no luck")
			}
		}),
	})
	conn := dial(t, at)
	io.WriteString(conn, "GET /panic HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line := <-log; !strings.Contains(line, "no luck") || !strings.Contains(line, "GET /panic") {
		t.Error(line)
	}
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("%s", answer)
	}
	conn = dial(t, at)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("%s, %v", answer, err)
	}
}

// Connections that do nothing give way to new ones; those that serve a request do not.
func TestManyConnections(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	at := serve(t, &Server{MaxConns: 4, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			entered <- struct{}{}
			<-release
		}
		io.WriteString(w, "answer")
	})})
	held := dial(t, at)
	io.WriteString(held, "GET /held HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	<-entered
	for range 100 {
		dial(t, at) // and says nothing
		conn := dial(t, at)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() // and the connection stays open
	}
	close(release)
	if answer, err := io.ReadAll(held); err != nil || !strings.HasSuffix(string(answer), "answer") {
		t.Errorf("%s, %v", answer, err)
	}
}

// While all connections serve requests, new ones are closed.
func TestNoPlace(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	at := serve(t, &Server{MaxConns: 2, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})})
	for range 2 {
		io.WriteString(dial(t, at), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-entered
	}
	if got, _ := io.ReadAll(dial(t, at)); len(got) > 0 {
		t.Errorf("%s", got)
	}
	close(release)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves until the end of the test, and returns the address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	l := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s.Name = "the tests"
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
