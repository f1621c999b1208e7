package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/store"
)

// The files of a launch are there when it starts on the other node, and are read from there, whatever happens to the
// connection.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	request := strings.Repeat("r\x00\xff", 1<<20/3)
	l := sh("app/a", 1, `cat "$`+proc.EnvFiles+`/order.json" | wc -c >"$`+proc.EnvFiles+`/size"; `+forever)
	l.Files = &runtime.Files{Write: map[string][]byte{"order.json": []byte(request)}, Remove: []string{"size"}}
	s := start(t, w.far, l)
	// A node on a machine that is busy may need more than one try.
	read := func(incarnation uint64, name string) (string, error) {
		for {
			text, err := w.far.ReadFile(ctxOf(t), "app/a", incarnation, name)
			if !errors.Is(err, runtime.ErrUnknown) || t.Context().Err() != nil {
				return string(text), err
			}
		}
	}
	for {
		if size, err := read(1, "size"); err == nil && size != "" {
			if strings.TrimSpace(size) != fmt.Sprint(len(request)) {
				t.Errorf("it has got %s bytes, want %d", size, len(request))
			}
			break
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	w.cutAndAwait(t)
	if got, err := read(0, "order.json"); err != nil || got != request {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for what, err := range map[string]error{
		"another incarnation": second(read(2, "order.json")), "another file": second(read(1, "none")),
		"of no agent": second(w.far.ReadFile(ctxOf(t), "app/b", 0, "order.json")),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"", "..", "../../etc/passwd", "/etc/passwd", strings.Repeat("x", 1<<20)} {
		if text, err := read(0, name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.20q: %.20q, %v", name, text, err)
		}
	}

	// A start that is refused leaves the files as they are.
	busy := l
	busy.Incarnation, busy.Files = 2, &runtime.Files{Write: map[string][]byte{"order.json": nil},
		Remove: []string{"size"}}
	if _, err := w.far.Start(ctxOf(t), busy); !errors.Is(err, runtime.ErrBusy) {
		t.Errorf("%v", err)
	}
	fenced := w.connectAs(t, 6)
	if _, err := fenced.Start(ctxOf(t), busy); err == nil {
		t.Error("the start of an older controller")
	}
	if got, err := read(1, "order.json"); err != nil || got != request {
		t.Errorf("a start that was refused has replaced the files: %d bytes, %v", len(got), err)
	}
	s.Kill()
	await(t, "its end", s.Done())
	hostile := l
	hostile.Incarnation = 3
	for _, name := range []string{"..", "../x", "/tmp/x", "incarnation", ""} {
		hostile.Files = &runtime.Files{Write: map[string][]byte{name: []byte("x")}}
		if _, err := w.far.Start(ctxOf(t), hostile); !errors.Is(err, proc.ErrCommand) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := w.far.Remove(ctxOf(t), "app/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := read(0, "order.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an agent that was removed: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// connectAs returns the runtime as a controller with another epoch uses it.
func (w *way) connectAs(t *testing.T, epoch uint64) *Runtime {
	c := NewClient(ClientOptions{
		Node: "n2", Dial: w.dial(w.controller, w.address), Logger: logger(t),
		Fence: func() store.Fence { return store.Fence{Lease: "controller", Epoch: epoch} },
	})
	t.Cleanup(func() { c.Close() })
	return c.Runtime("proc")
}

// slowFiles is a runtime whose files take forever, or are too large.
type slowFiles struct {
	runtime.Runtime
	large bool
}

func (s slowFiles) ReadFile(ctx context.Context, _ string, _ uint64, _ string) ([]byte, error) {
	if s.large {
		return make([]byte, maxFile+1), nil
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// noFiles is a runtime without files.
type noFiles struct{ runtime.Runtime }

// A node that does not answer, or answers nonsense, holds up nothing for long.
func TestFilesHostile(t *testing.T) {
	t.Parallel()
	local := openShim(t, shim.Options{Dir: slotsDir(t)})
	p := newPair(t)
	for what, c := range map[string]struct {
		runtime.Runtime
		want string
		is   error
	}{
		"slow":  {slowFiles{local, false}, "has not answered within", runtime.ErrUnknown},
		"large": {slowFiles{local, true}, "bytes, expected at most 8388608", nil},
		"none":  {noFiles{local}, "agents have no files", runtime.ErrUnsupported},
		"unset": {local, "no directory for the files", runtime.ErrUnsupported},
	} {
		far := p.far(t, c.Runtime)
		begun := time.Now()
		_, err := far.ReadFile(ctxOf(t), "app/a", 0, "f")
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begun); took > fileTimeout+3*time.Second {
			t.Errorf("%s: after %v", what, took)
		}
	}
	far := p.far(t, local)
	l := sh("app/a", 1, "exit 0")
	l.Files = &runtime.Files{Write: map[string][]byte{"f": nil}}
	if _, err := far.Start(ctxOf(t), l); !errors.Is(err, proc.ErrCommand) {
		t.Errorf("a start with files on a node that keeps none: %v", err)
	}
	far.server.Close()
	if _, err := far.ReadFile(ctxOf(t), "app/a", 0, "f"); !errors.Is(err, runtime.ErrUnknown) &&
		!errors.Is(err, slots.ErrClosed) {
		t.Errorf("of a node that has gone: %v", err)
	}
}
