package shim

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// However much an agent reports, its shim passes on little of it, and the last of it.
func TestSaidIsNoFlood(t *testing.T) {
	t.Parallel()
	dir := slotsDir(t)
	r := open(t, dir)
	words := filepath.Join(t.TempDir(), "words")
	if err := syscall.Mkfifo(words, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(words, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := sh("app/a", 1, `exec "$@"`)
	l.Argv, l.Notify = append(l.Argv, exe, runtimetest.SayArg, words), true
	s, err := r.Start(ctxOf(t), l)
	if err != nil {
		t.Fatal(err)
	}
	name, err := wire.DirName("app/a")
	if err != nil {
		t.Fatal(err)
	}
	watch, _, err := open(t, dir).dial(ctxOf(t), filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.close(slots.ErrClosed)
	var told atomic.Int64
	watch.listen(func(m *wire.Message) {
		if m.Type == wire.Said {
			told.Add(1)
		}
	})
	begin := time.Now()
	for range 300 {
		w.WriteString("\"WATCHDOG=1\"\n\"STATUS=a\"\n\"STATUS=b\"\n")
	}
	w.WriteString("\"STATUS=the last\"\n\"STOPPING=1\"\n\"STOPPING=1\"\n\"STATUS=really\"\nexit 0\n")
	wait(t, "the end", s.Done())
	most := int64(time.Since(begin)/(250*time.Millisecond)) + 3 // STOPPING=1 and the first message come immediately
	if n := told.Load(); n > most {
		t.Errorf("900 messages were told in %d, want at most %d", n, most)
	}
	if said := s.Observe().Said; said.Status != "really" || said.Stopping.IsZero() {
		t.Errorf("heard %+v", said)
	}
}
