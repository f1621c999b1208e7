package cost

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
)

// A call in progress counts, and the run itself does, only once the run has ended.
func TestRunOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		fired, began, ended := now.Add(-time.Hour), now.Add(-time.Minute), now.Add(-time.Second)
		never, unknown := time.Time{}, "fired at "+fired.Format(time.RFC3339Nano)
		calls := []agentcli.Record{{Model: "one", Ended: ended}}
		known := callfile.Records{Fired: fired, Run: "r", Began: began, Dropped: 2, Calls: calls}
		running := known
		running.Running = &agentcli.Record{Model: "two"}
		running.Calls = append(calls, *running.Running)
		for name, c := range map[string]struct {
			all         callfile.Records
			incarnation uint64
			ended       bool
			id          string
			calls       int
			from, to    time.Time
		}{
			"goes on":                  {known, 3, false, "r", 1, never, never},
			"goes on, with a call":     {running, 3, false, "r", 1, never, never},
			"has ended":                {known, 3, true, "r", 1, began, now},
			"was killed in a call":     {running, 3, true, "r", 2, began, now},
			"has ended some time ago":  {known, 0, true, "r", 1, began, ended},
			"has ended without a call": {callfile.Records{Run: "r", Began: began}, 0, true, "r", 0, began, now},
			"could not begin":          {callfile.Records{Fired: fired}, 3, true, unknown, 0, never, never},
			"is damaged":               {callfile.Records{Run: "r", Running: running.Running}, 3, false, "r", 0, never, never},
		} {
			r := RunOf("t/a", c.incarnation, c.all, c.ended)
			if r.Agent != "t/a" || r.Incarnation != c.incarnation || r.ID != c.id || len(r.Calls) != c.calls ||
				r.Dropped != c.all.Dropped || !r.Began.Equal(c.from) || !r.Ended.Equal(c.to) {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
}
