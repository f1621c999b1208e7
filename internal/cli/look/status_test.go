package look

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
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
