package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/api/endpoint"
)

// An agent knows its identity and proves it. Remains of an old incarnation cannot act for its
// successor.
func TestAgentToken(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `echo "$COPPICE_TOKEN" > "token.$COPPICE_INCARNATION"
coppice agent env > "env.$COPPICE_INCARNATION.new" 2>&1; mv "env.$COPPICE_INCARNATION.new" "env.$COPPICE_INCARNATION"
exec sleep 1000`))
	f.do("up", "-d")
	read := func(name string, n int) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(f.dir, fmt.Sprint(name, n)))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	said := func(n int) string {
		t.Helper()
		eventually(t, "the agent's answer", func() bool { _, err := os.Stat(filepath.Join(f.dir, fmt.Sprint("env.", n))); return err == nil })
		return read("env.", n)
	}
	if got, want := said(1), "COPPICE_AGENT=t/a\nCOPPICE_INCARNATION=1\nCOPPICE_SOCKET="; !strings.HasPrefix(got, want) {
		t.Errorf("env: %q", got)
	}
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	asAgent := func(n int) (string, error) {
		cmd := exec.Command("coppice", "agent", "env", "--json")
		cmd.Env = append(os.Environ(), "COPPICE_SOCKET="+socket, "COPPICE_TOKEN="+strings.TrimSpace(read("token.", n)))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// The next daemon accepts the token too.
	f.crash()
	f.do("up", "-d")
	if out, err := asAgent(1); err != nil || !strings.Contains(out, `"incarnation":1`) {
		t.Errorf("after the daemon was killed: %v, %s", err, out)
	}
	f.do("restart", "a")
	said(2)
	out, err := asAgent(1)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitAuth || !strings.Contains(out, "incarnation 1 of t/a") {
		t.Errorf("a stale token: %v, %s", err, out)
	}
	if out, err := asAgent(2); err != nil {
		t.Errorf("the token of the next incarnation: %v, %s", err, out)
	}
}

// An invalid token is rejected at once, with or without a daemon.
func TestNoToken(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"a\nb", "a b", "ä", "\x1b[2J"} {
		cmd := exec.Command("coppice", "agent", "env")
		cmd.Env = append(os.Environ(), "COPPICE_SOCKET="+filepath.Join(t.TempDir(), "none"), "COPPICE_TOKEN="+token)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitAuth || !strings.Contains(string(out), "COPPICE_TOKEN is not a token") {
			t.Errorf("%q: %v, %s", token, err, out)
		}
	}
}
