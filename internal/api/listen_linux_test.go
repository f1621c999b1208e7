package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Another user gets nothing, even where the file system would let him.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	path := tempSocket(t)
	start(t, canned{full: true}, path, patiently())
	for dir := filepath.Dir(path); dir != os.TempDir(); dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o777)
	}
	exe := filepath.Join(filepath.Dir(path), "t")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(exe, data, 0o755)
	os.Chmod(exe, 0o755)
	for _, mode := range []os.FileMode{0o600, 0o666} {
		os.Chmod(path, mode)
		cmd := exec.Command(exe, "-test.run=^TestOtherUserAsks$", "-test.v")
		cmd.Env = append(os.Environ(), "API_TEST_SOCKET="+path)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "as another user") {
			t.Errorf("mode %o: %v\n%s", mode, err, out)
		}
	}
	if _, err := dial(t, path).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOtherUserAsks is the other user of TestOtherUser.
func TestOtherUserAsks(t *testing.T) {
	path := os.Getenv("API_TEST_SOCKET")
	if path == "" {
		t.Skip("TestOtherUser runs it")
	}
	_, err := dial(t, path).Status(t.Context())
	if err == nil {
		t.Fatal("answered")
	}
	// Root is trusted, so it is the daemon that refuses here.
	t.Log("as another user:", err)
}

// A client does not talk to a socket that somebody else made.
func TestOthersSocket(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 1: false, 65534: false} {
		if got := trusted(uid); got != want {
			t.Errorf("user %d: %v", uid, got)
		}
	}
}
