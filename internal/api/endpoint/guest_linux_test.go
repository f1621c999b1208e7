package endpoint

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A socket for another user is that user's alone from the beginning, comes back when it was deleted,
// and goes with the listener.
func TestAdmit(t *testing.T) {
	l, err := listen(filepath.Join(t.TempDir(), "daemon.sock"), slog.New(slog.DiscardHandler), checkInterval)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Admit(0); err == nil {
		t.Error("root is a guest")
	}
	if os.Geteuid() != 0 {
		if path, err := l.Admit(61234); err == nil {
			t.Errorf("%s was made by one who may not", path)
		}
		return
	}
	path, err := l.Admit(61234)
	if err != nil || path != GuestPath(l.path, 61234) {
		t.Fatal(path, err)
	}
	check := func() bool {
		info, err := os.Lstat(path)
		return err == nil && info.Mode() == os.ModeSocket|0o600 && info.Sys().(*syscall.Stat_t).Uid == 61234
	}
	if !check() {
		t.Error("it is not the user's alone")
	}
	if again, err := l.Admit(61234); again != path || err != nil {
		t.Errorf("again: %s, %v", again, err)
	}
	if other, err := l.Admit(61235); other == path || err != nil {
		t.Errorf("another one: %s, %v", other, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(30 * time.Second); !check(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it has not come back")
		}
	}
	l.Close()
	if _, err := os.Lstat(filepath.Dir(path)); err == nil {
		t.Errorf("%s is left", filepath.Dir(path))
	}
	if _, err := l.Admit(61236); err == nil {
		t.Error("a closed listener admits a user")
	}
}

// Projects and users have different sockets, whose paths are short enough wherever the project is.
func TestGuestPath(t *testing.T) {
	seen := map[string]bool{}
	for _, socket := range []string{"/a/.coppice/daemon.sock", "/b/.coppice/daemon.sock", string(make([]byte, 4096))} {
		for _, uid := range []uint32{1, 2, 1<<32 - 2} {
			path := GuestPath(socket, uid)
			if seen[path] || len(path) > maxPath {
				t.Errorf("%q, %d: %s", socket, uid, path)
			}
			seen[path] = true
		}
	}
}
