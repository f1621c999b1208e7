package member

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/cluster/jointoken"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
)

// step is a change of a directory: a file that got its name, or was removed.
type step struct {
	name    string
	removed bool
}

// recorded returns the changes of a directory while do works, in their order.
func recorded(t *testing.T, dir string, do func()) (steps []step) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	do()
	buffer := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return steps
		}
		if err != nil {
			t.Fatal(err)
		}
		for rest := buffer[:n]; len(rest) > 0; {
			mask, size := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[12:])
			name := string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00"))
			steps = append(steps, step{name, mask&unix.IN_DELETE != 0})
			rest = rest[unix.SizeofInotifyEvent+size:]
		}
	}
}

// After a crash between any two changes of the directory, the machine is the node of before, or the new one, or it is
// about to become one. The same command then finishes the work, with the same key.
func TestCrash(t *testing.T) {
	s := newStore(t)
	host := mustInit(t, nodeDir(t), s, location(t, "0"), here("host"))
	token := serve(t, host.Member, s)
	other := mustInit(t, nodeDir(t), s, location(t, "3"), here("other"))
	otherToken := serve(t, other.Member, s)
	for name, c := range map[string]struct{ first, second func(dir string) error }{
		"init":        {nil, initWith(t, s, "1")},
		"init again":  {initWith(t, s, "1"), initWith(t, s, "2")},
		"join":        {nil, joinWith(s, token, ":20")},
		"join again":  {joinWith(s, token, ":20"), joinWith(s, otherToken, ":30")},
		"other store": {initWith(t, s, "1"), joinWith(s, token, ":20")},
	} {
		t.Run(name, func(t *testing.T) { crash(t, s, c.first, c.second) })
	}
}

func initWith(t *testing.T, s store.Store, end string) func(string) error {
	l := location(t, end)
	return func(dir string) error {
		_, err := Init(context.Background(), dir, s, l, Change{Hostname: "a", Listen: ":1" + end})
		return err
	}
}

func joinWith(s store.Store, token jointoken.Token, listen string) func(string) error {
	return func(dir string) error {
		_, err := Join(context.Background(), dir, token, Change{Hostname: "a", Listen: listen}, opening(s))
		return err
	}
}

func crash(t *testing.T, s store.Store, first, second func(dir string) error) {
	if err := registry.Remove(t.Context(), s, "a"); err != nil && !errors.Is(err, registry.ErrUnknown) {
		t.Fatal(err)
	}
	dir := nodeDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var before *Member
	if first != nil {
		if err := first(dir); err != nil {
			t.Fatal(err)
		}
		before = mustLoad(t, dir)
	}
	old := filesOf(t, dir)
	steps := recorded(t, dir, func() {
		if err := second(dir); err != nil {
			t.Fatal(err)
		}
	})
	after, done := mustLoad(t, dir), filesOf(t, dir)
	if len(steps) < 5 {
		t.Errorf("only %d changes: %v", len(steps), steps)
	}
	for n := range len(steps) + 1 {
		now := maps.Clone(old)
		for _, s := range steps[:n] {
			delete(now, s.name)
			if text, ok := done[s.name]; ok && !s.removed {
				now[s.name] = text
			}
		}
		now[".store-ca-1-2"], now["."+nodeFile+"-3"] = "half", "written"
		dir := nodeDir(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range now {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m, err := Load(dir)
		switch {
		case err == nil && before != nil && m.Settings().Listen == before.Settings().Listen:
			wantSame(t, m, before, n)
		case err == nil:
			wantSame(t, m, after, n)
		case before != nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrIncomplete):
			t.Errorf("after %d of %v: %v", n, steps, err)
		}
		if _, ok := now["key.pem"]; !ok { // the fleet does not know the key yet
			continue
		}
		if err := second(dir); err != nil {
			t.Errorf("repeated after %d of %v: %v", n, steps, err)
			continue
		}
		wantSame(t, mustLoad(t, dir), after, n)
		for name := range filesOf(t, dir) {
			if strings.HasPrefix(name, ".") {
				t.Errorf("after %d: %s is left", n, name)
			}
		}
	}
}

func mustLoad(t *testing.T, dir string) *Member {
	t.Helper()
	m, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantSame compares members, but for their directories and certificates.
func wantSame(t *testing.T, got, want *Member, n int) {
	t.Helper()
	if got.Settings().Listen != want.Settings().Listen || got.node.location.String() != want.node.location.String() ||
		got.Current().KeyHash() != want.Current().KeyHash() {
		t.Errorf("after %d: %+v, want %+v", n, got.node, want.node)
	}
}
