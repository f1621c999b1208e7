package test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/quota"
)

// What a command line reports of its account while it still tries again closes the quota at once. The agent itself goes
// on. If it is served in the end, the quota opens; if not, it stays closed.
func TestQuotaLive(t *testing.T) {
	t.Parallel()
	const success = `{"type":"result","subtype":"success","is_error":false,"result":"done"}`
	reset := time.Now().Add(time.Hour)
	rejected := fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%d,"rateLimitType":"five_hour"}}`,
		reset.Unix())
	for _, tt := range []struct {
		name, says, ends string
		code             int
		state            quota.State
		opens            bool
	}{
		{"limit", rejected, success, 0, quota.Parked, true},
		{"login", `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":401,"error":"authentication_failed"}`,
			success, 0, quota.Stopped, true},
		{"limit to the end", rejected, claudeFails("usage_limit_reached", "You've hit your limit", reset), 1, quota.Parked, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClaudeFleet(t, 2)
			write(t, filepath.Join(c.dir, "ends"), tt.ends+"\n")
			exectest.Write(t, filepath.Join(c.dir, "claude"), fmt.Sprintf("#!/bin/sh\n"+unasked+`cd %s
until test -s says; do sleep 0.02; done
test $COPPICE_AGENT = t/c0 || exec sleep 1000
cat says
until test -e end; do sleep 0.02; done
cat ends
exit %d
`, c.dir, tt.code))
			c.up()
			c.awaitState("t/c0", "running")
			c.awaitState("t/c1", "running")
			c.says(tt.says)
			eventually(t, "that the quota is closed", func() bool { return len(c.quotas()) == 1 })
			if q := c.quotas()[0]; q.State != tt.state || q.Agent != "t/c0" {
				t.Errorf("%+v", q)
			}
			if n := c.node("t/c0"); n.State != "running" || n.Incarnation != 1 {
				t.Errorf("%+v", n)
			}
			c.try("restart", "c1")
			if n := c.awaitState("t/c1", "waiting"); n.Restarts != 0 {
				t.Errorf("%+v", n)
			}
			write(t, filepath.Join(c.dir, "end"), "")
			if tt.opens {
				c.awaitState("t/c0", "stopped")
				c.awaitState("t/c1", "running")
			} else {
				c.awaitState("t/c0", "waiting")
				c.awaitState("t/c1", "waiting")
			}
			if all := c.quotas(); (len(all) == 0) != tt.opens || len(c.all(event.QuotaParked))+len(c.all(event.QuotaStopped)) != 1 {
				t.Errorf("%+v", all)
			}
		})
	}
}
