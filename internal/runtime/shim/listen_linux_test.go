package shim

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// heard collects lines as "path incarnation stream text".
type heard struct {
	mu    sync.Mutex
	lines []string
	moved chan struct{}
}

func (h *heard) line(path string, incarnation uint64, l proc.Line) {
	if l.Partial { // the complete line follows
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%s %d %v %s", path, incarnation, l.Stream, l.Text))
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
}

func (h *heard) now() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

func (h *heard) await(t *testing.T, text string) {
	t.Helper()
	for {
		h.mu.Lock()
		if h.moved == nil {
			h.moved = make(chan struct{})
		}
		moved := h.moved
		found := slices.Contains(h.lines, text)
		h.mu.Unlock()
		if found {
			return
		}
		wait(t, text, moved)
	}
}

func listenOn(t *testing.T, dir string, output func(string, uint64, proc.Line)) *Runtime {
	t.Helper()
	r, err := Open(Options{Dir: dir, Output: output})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Each line comes once, in order, with its stream and incarnation, and before the change of
// state that followed it.
func TestOutput(t *testing.T) {
	h := &heard{}
	r := listenOn(t, slotsDir(t), h.line)
	var want []string
	for n := uint64(1); n <= 20; n++ {
		l := sh("app/a", n, "echo one; echo ready; read x <&3; echo two >&2; printf three; exit 1")
		gate := filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		l.Argv[2] = "exec 3<>'" + gate + "'; " + l.Argv[2]
		l.Ready.Log = "^ready$"
		s := start(t, r, l)
		for _, line := range []string{"stdout one", "stdout ready"} {
			want = append(want, fmt.Sprintf("app/a %d %s", n, line))
		}
		if got := h.now(); !slices.Equal(got, want) {
			t.Fatalf("when it is ready: %q, want %q", got, want)
		}
		writeFile(t, gate)
		wait(t, "its end", s.Done())
		rest := []string{fmt.Sprintf("app/a %d stderr two", n), fmt.Sprintf("app/a %d stdout three", n)}
		got := h.now()
		if len(got) != len(want)+2 {
			t.Fatalf("when it has ended: %q, want %q and %q", got, want, rest)
		}
		// The streams are two pipes: the order between them is unknown.
		if slices.Sort(got[len(want):]); !slices.Equal(got[len(want):], rest) {
			t.Fatalf("when it has ended: %q, want %q", got, rest)
		}
		want = h.now()
	}
}

func writeFile(t *testing.T, fifo string) {
	t.Helper()
	f, err := syscall.Open(fifo, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(f) })
	if _, err := syscall.Write(f, []byte("go\n")); err != nil {
		t.Fatal(err)
	}
}

// An agent waits for a slow listener when it writes. Its end does not wait, and no output is
// lost then.
func TestSlowListener(t *testing.T) {
	const lines = 400_000
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n, last := 0, ""
	r := listenOn(t, slotsDir(t), func(path string, _ uint64, l proc.Line) {
		if path != "app/a" || l.Partial {
			return
		}
		once.Do(func() { close(begun) })
		<-release
		if n++; n > 1 && last != fmt.Sprint(n-1) {
			t.Errorf("line %q before number %d", last, n)
		}
		last = l.Text
	})
	s := start(t, r, sh("app/a", 1, fmt.Sprintf("seq %d; echo never; exec sleep 1000", lines)))
	wait(t, "the first line", begun)
	// Another agent is not delayed.
	wait(t, "its end", start(t, r, sh("app/b", 1, "echo hello")).Done())
	s.Stop()
	wait(t, "its end", s.Done())
	quit := make(chan error, 1)
	go func() { quit <- r.Quit(ctxOf(t)) }()
	select {
	case err := <-quit:
		t.Errorf("the writer does not wait for its listener: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if err := <-quit; err != nil {
		t.Error(err)
	}
	if n >= lines || n < 1000 || !strings.HasPrefix(fmt.Sprint(n), last) { // it was killed in the middle of a line
		t.Errorf("%d lines, the last one is %q", n, last)
	}
}

// An agent continues after its listener has gone, and the next listener gets the output from
// then on.
func TestListenerGoes(t *testing.T) {
	dir := slotsDir(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := listenOn(t, dir, func(string, uint64, proc.Line) {
		once.Do(func() { close(begun) })
		<-release
	})
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, r, sh("app/a", 1, "exec 3<>'"+gate+"'; seq 200000; echo written; read x <&3; echo later"))
	wait(t, "the first line", begun)
	s.slot.mu.Lock()
	s.slot.listener.c.Close() // as if the daemon was killed
	s.slot.mu.Unlock()
	close(release)
	h := &heard{}
	next := listenOn(t, dir, h.line)
	s2, err := next.Adopt(ctxOf(t), "app/a")
	if err != nil {
		t.Fatal(err)
	}
	until := make(chan struct{})
	go follow(t.Context(), s2, 1, func(line string) {
		if line == "written" {
			close(until)
		}
	})
	wait(t, "the end of its lines", until)
	writeFile(t, gate)
	wait(t, "its end", s2.Done())
	h.await(t, "app/a 1 stdout later")
	r.Close()
	if err := next.Quit(ctxOf(t)); err != nil {
		t.Error(err)
	}
}

// A listener that violates the protocol is dropped; agents do not wait for it.
func TestHostileListener(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	c := raw(t, s.slot.dir)
	io.WriteString(c, helloTo(s.slot)+"\n"+`{"type":"listen","id":2}`+"\n"+`{"type":"kill","id":3,"incarnation":1}`+"\n")
	if b, err := io.ReadAll(c); err != nil || strings.Contains(string(b), `"id":3`) {
		t.Errorf("%q, %v", b, err)
	}
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("the agent: %+v", o)
	}
	s.Kill()
	wait(t, "its end", s.Done())
}
