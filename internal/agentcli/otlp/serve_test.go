package otlp

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/token"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockedBuffer is what a logger has written.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// It listens until it is to end. An address that is in use is reported.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	r := New(func(string) (token.Caller, error) { return token.Caller{}, nil }, func(token.Caller, []agentcli.Event) {})
	var log lockedBuffer
	serve := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			r.Serve(ctx, address, slog.New(slog.NewTextHandler(&log, nil)))
			close(done)
		}()
		return func() {
			cancel()
			<-done
		}
	}
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not %s; log: %s", what, log.String())
			}
		}
	}
	stop := serve()
	await("told that the address is in use", func() bool { return strings.Contains(log.String(), "address already in use") })
	stop()
	l.Close()
	stop = serve()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	await("answered", func() bool {
		answer, err := client.Post("http://"+address+"/v1/logs", "application/json", strings.NewReader("{}"))
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	stop()
	if _, err := client.Post("http://"+address+"/v1/logs", "application/json", strings.NewReader("{}")); err == nil {
		t.Error("it answers after its end")
	}
}
