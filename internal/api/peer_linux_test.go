package api

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/exectest"
)

// Another user gets nothing, even where the file system would let him.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	path := tempSocket(t)
	start(t, canned{full: true}, path, fastTimeouts())
	for dir := filepath.Dir(path); dir != os.TempDir(); dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o777)
	}
	exe := filepath.Join(filepath.Dir(path), "t")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exectest.Write(t, exe, string(data))
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
	if err := reach(t.Context(), dial(t, path)); err != nil {
		t.Error(err)
	}
}

// TestOtherUserAsks is the other user of TestOtherUser, and does nothing otherwise.
func TestOtherUserAsks(t *testing.T) {
	path := os.Getenv("API_TEST_SOCKET")
	if path == "" {
		return
	}
	err := reach(t.Context(), dial(t, path))
	if err == nil {
		t.Fatal("answered")
	}
	// Root is trusted, so it is the daemon that refuses here.
	t.Log("as another user:", err)
}

// A connection whose process has ended may be used to read, and for nothing else:
// whose it was cannot be found out.
func TestEndedPeer(t *testing.T) {
	for request, want := range map[string]string{
		`GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`:                                                   " 200 ",
		`POST /v1/down HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`: "ended before it was known whose it is",
	} {
		path := tempSocket(t)
		l, err := endpoint.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestEndedPeerConnects$")
		cmd.Env = append(os.Environ(), "API_TEST_SOCKET="+path, "API_TEST_REQUEST="+request)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if state, err := cmd.Process.Wait(); err != nil || !state.Success() {
			t.Fatal(state, err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			s := newServer(canned{full: true}, fastTimeouts())
			standInActs(s, canned{})
			served <- s.Serve(ctx, l)
		}()
		io.WriteString(in, "go\n")
		answer, err := io.ReadAll(out)
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%.10s: %s, %v", request, answer, err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// TestEndedPeerConnects is the process of TestEndedPeer, and does nothing otherwise.
func TestEndedPeerConnects(t *testing.T) {
	path := os.Getenv("API_TEST_SOCKET")
	if os.Getenv("API_TEST_REQUEST") == "" {
		return
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(1)
	}
	f, err := conn.(*net.UnixConn).File()
	if err != nil {
		os.Exit(1)
	}
	heir := exec.Command("/bin/sh", "-c", `read go; printf "$API_TEST_REQUEST" >&3; exec cat <&3`)
	heir.Stdin, heir.Stdout, heir.ExtraFiles = os.Stdin, os.Stdout, []*os.File{f}
	if heir.Start() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}
