package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
)

func TestStandingLines(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	soon, left := now.Add(90*time.Second), 61.5
	for _, tt := range []struct {
		does string
		s    *api.Standing
		want string
	}{
		{"the root", nil, ""},
		{"healthy", &api.Standing{Wanted: "run", Observed: "running", Known: true}, "it is to run; it runs as declared|a round would do nothing about it"},
		{"drifted", &api.Standing{Wanted: "run", Observed: "running", Known: true, Drifted: []string{"env.A", "command"}, Action: "renew", Reason: "drifted: env.A"},
			"it is to run; it runs, but not as declared: env.A, command|a round would renew it now: drifted: env.A"},
		{"everything", &api.Standing{Wanted: "suspend", Why: "the file suspends it", Observed: "down", WaitsFor: []string{"t/b", "t/c"}, HeldUntil: &soon, IdleLeft: &left, Busy: true, NextRound: &soon},
			"it is not to run (the file suspends it); it does not run|it waits for t/b, t/c|started too often: there is room for another start at 03:05:35, in 1m30s|" +
				"it is killed in 1m01s unless it reads or writes something before|what was planned for it is being done; the next one is in 1m30s, or when something happens"},
		{"of a later version", &api.Standing{Wanted: "dance", Observed: "dancing"}, "wanted: dance; observed: dancing|a round would do nothing about it"},
	} {
		if got := strings.Join(standingLines(tt.s, now), "|"); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.does, got, tt.want)
		}
	}
}
