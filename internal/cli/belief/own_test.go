package belief

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// A removal is repeated if its answer was lost. The repetition succeeds even though the belief is
// already gone.
func TestRemoveAgain(t *testing.T) {
	dir, err := os.MkdirTemp("", "own")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Coppice-Api", api.Version)
		if calls.Add(1) == 1 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte(`{"error":"no such belief","code":"not_found"}`))
	})}
	go server.Serve(l)
	defer server.Close()
	t.Setenv(proc.EnvSocket, socket)
	t.Setenv(proc.EnvToken, "token")
	if err := changeOwn(belief.OwnChange{Delete: []string{"note"}}); err != nil {
		t.Error(err)
	}
	if calls.Load() != 2 {
		t.Errorf("asked %d times, want twice", calls.Load())
	}
	if err := changeOwn(belief.OwnChange{Delete: []string{"note"}}); err == nil {
		t.Error("there was nothing to remove, and it succeeded")
	}
}
