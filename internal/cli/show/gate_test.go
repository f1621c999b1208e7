package show

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/task"
)

func TestGateText(t *testing.T) {
	now := time.Date(2030, 1, 2, 15, 4, 5, 0, time.Local)
	since := now.Add(-time.Hour)
	for _, tt := range []struct {
		gate task.Gate
		want string
	}{
		{task.Gate{Since: since}, "since 14:04:05"},
		{task.Gate{Since: since, Checking: true}, "since 14:04:05; a check is running"},
		{task.Gate{
			Since: since, CheckedAt: now.Add(-time.Second), Result: "exit code 7: no\x1b[2J", NextAt: now.Add(time.Minute),
		}, "since 14:04:05; last check 15:04:04: exit code 7: no; next check in 1m00s"},
	} {
		if got := GateText(tt.gate, now); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
