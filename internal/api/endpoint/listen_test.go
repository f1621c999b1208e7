package endpoint

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// late bounds a wait that only a failure makes that long.
const late = 20 * time.Second

// tempSocket returns a path that is short enough, whatever the test is called.
func tempSocket(t *testing.T) string {
	dir, err := os.MkdirTemp("", "api")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s", "daemon.sock")
}

func TestPath(t *testing.T) {
	short, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	short, _ = filepath.EvalSymlinks(short)
	path, err := Path(short)
	if want := filepath.Join(short, ".coppice", "daemon.sock"); path != want || err != nil {
		t.Errorf("%s, %v, want %s", path, err, want)
	}
	// However it is reached, a project has one socket.
	link := filepath.Join(short, "link")
	os.Symlink(short, link)
	t.Chdir(short)
	for _, other := range []string{link, ".", "link", short + "/../" + filepath.Base(short)} {
		if p, err := Path(other); p != path || err != nil {
			t.Errorf("%s: %s, %v, want %s", other, p, err, path)
		}
	}
	if _, err := Path(filepath.Join(short, "none")); err == nil {
		t.Error("a directory that does not exist has a socket")
	}

	long := filepath.Join(short, strings.Repeat("d", 100))
	os.Mkdir(long, 0o700)
	runtime := filepath.Join(short, "run")
	os.Mkdir(runtime, 0o700)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	path, err = Path(long)
	if filepath.Dir(path) != runtime || err != nil {
		t.Errorf("%s, %v, want it in %s", path, err, runtime)
	}
	if again, _ := Path(filepath.Join(link, filepath.Base(long))); again != path {
		t.Errorf("%s and %s for one project", path, again)
	}
	other := long + "x"
	os.Mkdir(other, 0o700)
	if p, _ := Path(other); p == path {
		t.Error("two projects have one socket")
	}

	// A directory that others can use is none to put a socket into.
	os.Chmod(runtime, 0o755)
	tmp := filepath.Join(short, "tmp")
	os.Mkdir(tmp, 0o1777)
	t.Setenv("TMPDIR", tmp)
	path, err = Path(long)
	if err != nil || filepath.Dir(path) != tempDir() || !strings.HasPrefix(path, tmp) {
		t.Fatalf("%s, %v", path, err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if info, err := os.Stat(tempDir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	os.Remove(tempDir())
	for trick, do := range map[string]func() error{
		"a link":       func() error { return os.Symlink(runtime, tempDir()) },
		"open":         func() error { os.Mkdir(tempDir(), 0o700); return os.Chmod(tempDir(), 0o777) },
		"a file":       func() error { return os.WriteFile(tempDir(), nil, 0o600) },
		"someone's":    func() error { os.Mkdir(tempDir(), 0o700); return os.Chown(tempDir(), 12345, -1) },
		"dangling":     func() error { return os.Symlink(filepath.Join(short, "not", "there"), tempDir()) },
		"link to root": func() error { return os.Symlink("/root", tempDir()) },
	} {
		if err := do(); err != nil {
			t.Logf("%s: %v", trick, err) // only root can give things away
		} else {
			if p, err := Path(long); err == nil {
				t.Errorf("%s: socket %s", trick, p)
			}
			if l, err := Listen(path); err == nil {
				t.Errorf("%s: listening", trick)
				l.Close()
			}
		}
		os.RemoveAll(tempDir())
	}
	os.Chmod(runtime, 0o700)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(short, "run", "..", "run"))
	t.Setenv("TMPDIR", "/"+strings.Repeat("t", 120))
	os.Chmod(runtime, 0o755)
	if p, err := Path(long); err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("%s, %v", p, err)
	}
}

// The socket is never open to others, whatever the umask.
func TestSocketMode(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o777} {
		path := tempSocket(t)
		os.MkdirAll(filepath.Dir(path), 0o700)
		old := syscall.Umask(mask)
		l, err := Listen(path)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("umask %o: %v, %v", mask, info.Mode(), err)
		}
		l.Close()
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	}
}

func TestListenInUse(t *testing.T) {
	path := tempSocket(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second daemon: %v", err)
	}
	l.Close()

	// What a killed daemon leaves behind is replaced.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if l, err = Listen(path); err != nil {
		t.Fatal(err)
	}
	l.Close()

	// Something else is not.
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Error(err)
	}
	if data, err := os.ReadFile(path); string(data) != "precious" {
		t.Error(err)
	}
}

// Of many that find a stale socket at once, one gets it.
func TestListenRace(t *testing.T) {
	for range 20 {
		path := tempSocket(t)
		os.MkdirAll(filepath.Dir(path), 0o700)
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		stale.SetUnlinkOnClose(false)
		stale.Close()
		var mu sync.Mutex
		var won []*Listener
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				l, err := Listen(path)
				if err == nil {
					mu.Lock()
					won = append(won, l)
					mu.Unlock()
				} else if !errors.Is(err, ErrInUse) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Errorf("%d listen", len(won))
		}
		for _, l := range won {
			l.Close()
		}
	}
}

// A socket that was deleted comes back; a successor's is left alone.
func TestSocketDeleted(t *testing.T) {
	path := tempSocket(t)
	l, err := listen(path, slog.New(slog.DiscardHandler), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "here")
			conn.Close()
		}
	}()
	for _, remove := range []string{path, filepath.Dir(path)} {
		if err := os.RemoveAll(remove); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.Restored():
		case <-time.After(late):
			t.Fatal("it does not come back")
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || string(answer) != "here" {
			t.Errorf("%q, %v", answer, err)
		}
		conn.Close()
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	os.Remove(path)
	other, err := net.Listen("unix", path)
	if err != nil {
		l.Close()
		return // ours was faster
	}
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another daemon was removed: %v", err)
	}
	other.Close()
}

// Closing is safe at any moment, also while the socket is being made again.
func TestCloseRace(t *testing.T) {
	for range 50 {
		path := tempSocket(t)
		l, err := listen(path, slog.New(slog.DiscardHandler), 100*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		os.Remove(path)
		closed := make(chan struct{})
		go func() { l.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(late):
			t.Fatal("it does not close")
		}
		if _, err := os.Lstat(path); err == nil {
			t.Fatal("a socket is left behind")
		}
	}
}
