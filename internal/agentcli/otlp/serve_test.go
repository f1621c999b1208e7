package otlp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines passes on each line of a logger.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// An address that is in use is reported once, and tried again until the end.
func TestServeInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	log, done := make(lines, 1), make(chan struct{})
	go func() {
		newReceiver().Serve(ctx, l.Addr().String(), slog.New(slog.NewTextHandler(log, nil)))
		close(done)
	}()
	if line := <-log; !strings.Contains(line, "address already in use") {
		t.Error(line)
	}
	cancel()
	<-done
}

// It answers until the end.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- newReceiver().serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	post := func() (*http.Response, error) {
		return client.Post("http://"+l.Addr().String()+"/v1/logs", "application/json", strings.NewReader("{}"))
	}
	answer, err := post()
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Error(answer.Status)
	}
	cancel()
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if _, err := post(); err == nil {
		t.Error("it answers after its end")
	}
}

func newReceiver() *Receiver {
	caller := func(string) (token.Caller, error) { return token.Caller{}, nil }
	return New(caller, func(token.Caller, []agentcli.Event) {})
}
