package shim

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// A shim that may have got a slot, and has not answered, is the only one that may serve it: a second
// one could start the agent, too.
func TestSlotThatAShimMayHave(t *testing.T) {
	r := open(t, slotsDir(t))
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	end, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	process := exec.Command("sleep", "1000") // counts as that of the shim
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		process.Process.Kill()
		process.Wait()
	})
	defer kill()
	id, err := proc.Identify(process.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // a shim that hangs up when it gets a slot
		defer end.Close()
		requests := wire.NewReader(end)
		for {
			m, err := requests.Read()
			if err != nil || m.Type == wire.Serve {
				return
			}
			st := &wire.State{Version: wire.Version, Shim: id}
			b, err := wire.Encode(&wire.Message{Type: wire.Status, ID: m.ID, State: st, Key: "app"})
			if err != nil {
				return
			}
			end.Write(b)
		}
	}()
	h := &host{ready: make(chan struct{})}
	h.open(r, func() (*conn, error) { return greet(ctxOf(t), ours, "") })
	if h.err != nil {
		t.Fatal(h.err)
	}
	if _, err := r.Start(ctxOf(t), sh("app/a", 1, "exec sleep 1000")); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("start: %v, want that it is unknown which shim has the slot", err)
	}
	kill()
	start(t, r, sh("app/a", 1, "exec sleep 1000"))
}

// A start that is given up while its shim starts does not fail those that wait for the same shim.
func TestGivenUpStartOfAShim(t *testing.T) {
	r := open(t, slotsDir(t))
	ctx, cancel := context.WithTimeout(context.Background(), 1)
	defer cancel()
	<-ctx.Done()
	h, err := r.reserve(ctx, &runtime.Launch{Path: "app/a"})
	if err != nil || h.conn == nil {
		t.Fatalf("the shim has not started: %v", err)
	}
	if again, err := r.reserve(ctxOf(t), &runtime.Launch{Path: "app/b"}); err != nil || again != h {
		t.Errorf("the next start does not use it: %v", err)
	}
}
