package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/supervisor"
)

// A process runs as another user, with that user's groups and no others, also on a terminal and
// without new privileges. It can open its output again, and is killed like any other.
func TestUser(t *testing.T) {
	who := &account.Account{Name: "other", UID: 61234, GID: 61235, Groups: []uint32{61236}, Home: "/"}
	script := `echo ids $(id -u) $(id -g) $(id -G)
echo again > /dev/stdout && echo opened
cat /proc/self/environ > /dev/null && echo own
[ -w / ] && echo privileged
exec sleep 1000`
	if os.Geteuid() != 0 {
		cmd := sh(script)
		cmd.User = who
		if p, err := Start(cmd, Output{}); err == nil {
			p.Kill()
			t.Error("started as another user by one who may not")
		}
		return
	}
	for _, c := range []struct{ terminal, restricted bool }{{false, false}, {true, false}, {false, true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			cmd := sh(script)
			cmd.Dir, cmd.User, cmd.NoNewPrivileges = "/", who, c.restricted
			if c.terminal {
				cmd.Terminal = &Size{}
			}
			out := newLines()
			p, err := Start(cmd, Output{Line: out.add})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { p.Kill(); <-p.Drained() }()
			out.await(t, "own")
			all := out.texts()
			for i := range all {
				all[i] = strings.TrimSpace(all[i])
			}
			if !slices.Equal(all, []string{"ids 61234 61235 61235 61236", "again", "opened", "own"}) {
				t.Errorf("output %q", all)
			}
			p.Kill()
			wait(t, "the exit", p.Done())
			if p.Exit().Kind != supervisor.Killed {
				t.Errorf("exit %v", p.Exit())
			}
		})
	}
}

// The error names what the user cannot access.
func TestUserOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes as other users")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := sh("true")
	cmd.Dir, cmd.User = dir, &account.Account{Name: "other", UID: 61234, GID: 61234}
	_, err := Start(cmd, Output{})
	if !errors.Is(err, ErrCommand) || !errors.Is(err, os.ErrPermission) ||
		!strings.Contains(err.Error(), "user other cannot enter ") {
		t.Errorf("%v", err)
	}
}
