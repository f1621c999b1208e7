package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// An agent with a user of its own reaches the daemon of its node, and is no person there.
func testPlacedUser(t *testing.T, c *etcdtest.Cluster) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start agents as other users")
	}
	dir, err := os.MkdirTemp("", "coppice-test") // t.TempDir is for this user alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = copyProgram(self, filepath.Join(dir, "coppice"))
	}
	if err != nil {
		t.Fatal(err)
	}
	m := newMachines(t, c, 2)
	guest := agentTOML("guest", `note() { coppice agent belief set --string "$1=$2"; }
coppice stop calm; note stop $?
env -i PATH="$PATH" COPPICE_SOCKET="$COPPICE_SOCKET" coppice stop calm; note bare $?
note user "$(id -u) $HOME"; exec sleep 100000`,
		`node = "n2"`, `user = "61234"`, `dir = "/"`, `shutdown = { grace = "2s" }`,
		fmt.Sprintf(`env = { PATH = "%s:/usr/local/bin:/usr/bin:/bin" }`, dir),
		`on_start = '''coppice agent belief set --string hook=$(id -u)'''`)
	for _, n := range m.all {
		n.rewrite(m.toml, guest)
	}
	m.startWith("zone=eu")
	first := m.all[0]
	if n := first.awaitState("t/guest", "running"); n.Host != "n2" {
		t.Errorf("it runs on %s", n.Host)
	}
	for name, want := range map[string]string{
		"user": "61234 /", "hook": "61234", "stop": fmt.Sprint(exitAuth), "bare": fmt.Sprint(exitAuth),
	} {
		await(t, waitTimeout, func() string {
			out, err := first.try("belief", "get", "t/guest", name)
			if got := strings.Trim(strings.TrimSpace(out), `"`); err != nil || got != want {
				return fmt.Sprintf("%s is %q, %v, want %q", name, got, err, want)
			}
			return ""
		})
	}
	first.do("down")
	m.checkDown()
}
