package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An environment file is read at each start and never shown. A change restarts the agent; an
// invalid file does not.
func TestEnvFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `printf %s "$SECRET" > seen.$COPPICE_INCARNATION; echo "$COPPICE_INCARNATION: ${#SECRET}, $PORT, $EMPTY."; exec sleep 1000`,
		`env_file = ["x.env", "y.env"]`, `env = { PORT = "80" }`))
	f.replaceFile("y.env", "PORT=90\nEMPTY=\n")
	out, err := f.try("up", "-d")
	if err == nil || !strings.Contains(out, "coppice.toml:10:13: env_file: "+f.dir+"/x.env: no such file, expected variables as KEY=VALUE") {
		t.Errorf("without the file: %v\n%s", err, out)
	}
	f.replaceFile("x.env", "export SECRET='pa$$word' # of the shop\nPORT=1\nEMPTY=no\n")
	f.up()
	client := f.dial()
	defer client.Close()
	f.awaitSaid(client, "a", "1: 8, 80, .")
	if seen, err := os.ReadFile(filepath.Join(f.dir, "seen.1")); string(seen) != "pa$$word" {
		t.Errorf("the secret is %q, %v", seen, err)
	}
	if out := f.do("explain", "a") + f.do("config", "show") + f.do("ps", "--json") + f.do("events", "--json"); strings.Contains(out, "pa$$word") {
		t.Errorf("the secret is shown:\n%s", out)
	}
	f.do("patrol") // the files have been read by then
	f.replaceFile("x.env", "SECRET\n")
	if out, _ := f.try("patrol"); !strings.HasPrefix(out, "nothing to do") { // the configuration may be rejected
		t.Errorf("of a file that is wrong: %q", out)
	}
	os.Remove(filepath.Join(f.dir, "x.env"))
	if out, _ := f.try("patrol"); !strings.HasPrefix(out, "nothing to do") {
		t.Errorf("of a file that is gone: %q", out)
	}
	f.replaceFile("x.env", "SECRET=new\nEMPTY=no\n")
	eventually(t, "the change", func() bool {
		f.try("patrol")
		return strings.Contains(f.do("logs", "a", "-n", "1"), "2: 3, 80, .")
	})
	if out := f.do("events"); !strings.Contains(out, "x.env") || strings.Contains(out, "pa$$word") {
		t.Errorf("events:\n%s", out)
	}
	// The file is read at each start, whatever the cause.
	os.Remove(filepath.Join(f.dir, "x.env"))
	if out, err := f.try("restart", "a"); err == nil && !strings.Contains(f.do("explain", "a"), "x.env: no such file") {
		t.Errorf("restarted without the file: %s\n%s", out, f.do("explain", "a"))
	}
}
