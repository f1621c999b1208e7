package look

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/notify"
)

func TestNotifyLines(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	if got := notifyLines(nil, now, terminal.Paint{}, 0); len(got) != 1 || !strings.Contains(got[0], "[[notify]]") {
		t.Errorf("%q", got)
	}
	got := strings.Join(notifyLines([]notify.Info{
		{Name: "hook", Via: "webhook", On: []string{"needs_input", "store"}, LastSent: now.Add(-time.Minute)},
		{Name: "phone", Via: "ntfy", On: []string{"quota"}, Pending: 2, Error: "the server answers with 500",
			RetryAt: now.Add(time.Minute)},
	}, now, terminal.Paint{}, 0), "\n")
	const want = `hook via webhook
  on      needs_input, store
  sent    11:59:00
phone via ntfy
  on      quota
  pending 2
  sent    never
  error   the server answers with 500
  retry   12:01:00`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
