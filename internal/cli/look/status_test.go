package look

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/status"
)

// Without a daemon, status reports that the file is invalid.
func TestOfflineStatus(t *testing.T) {
	t.Parallel()
	offline := status.Status{
		Project: "app",
		Store:   status.Store{Kind: "sqlite", Path: "/p/store.db"},
		Config: status.Config{
			Path: "/p/coppice.toml", Revision: "0123456789abcdef", LoadedAt: time.Now(),
			LastError: "coppice.toml:1:1: oops\ncoppice.toml:2:1: oops again",
		},
	}
	out := strings.Join(statusLines(offline, time.Now(), terminal.NewPaint(false)), "\n")
	if want := "revision 0123456789ab\n         cannot be used: coppice.toml:1:1: oops\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// The status of a fleet on several machines has its nodes, and what is written to its store.
func TestFleetStatus(t *testing.T) {
	t.Parallel()
	st := status.Status{
		Project: "app", Controller: status.Controller{PID: 7, Host: "a"},
		Nodes: []nodes.Summary{
			{Name: "a", State: nodes.Ready, Controller: true, Agents: 1}, {Name: "b", State: nodes.Lost},
		},
		Store: status.Store{
			Kind: "etcd", Path: "etcd://a/app", OK: true, Writes: &status.Writes{PerSecond: 1234.56, AtOnce: 16},
		},
	}
	out := strings.Join(statusLines(st, time.Now(), terminal.NewPaint(false)), "\n")
	for _, want := range []string{
		"\nnodes    2: 1 lost, 1 ready\n         a ready, controller, 1 agent\n         b lost\n",
		"\nstore    etcd etcd://a/app, 1234.6 writes/s, at most 16 at once\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
