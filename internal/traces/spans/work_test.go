package spans

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spanid"
)

func TestWork(t *testing.T) {
	const path = "shop/web/api"
	incarnation := spanid.Incarnation("n", path, 7)
	for name, c := range map[string]struct {
		event      event.Event
		id, parent spanid.ID
		want       string
	}{
		"an attempt completes a task": {
			at(30, event.TaskClosed, path, 7, `{"id":"T-1","title":"secret","labels":["secret"],"pool":"fixers",
				"attempt":2,"attempt_outcome":"completed","attempt_began_at":"2026-11-23T01:00:10Z"}`),
			incarnation.Attempt("T-1", 2), incarnation,
			"attempt 10s+20s\ncoppice.task.id=T-1\ncoppice.task.attempt=2\ncoppice.task.pool=fixers\n" +
				"coppice.task.outcome=completed\ncoppice.agent.path=shop/web/api\ncoppice.incarnation=7",
		},
		"an attempt fails": {
			at(30, event.TaskReleased, path, 7, `{"id":"T-1","attempt":1,"attempt_outcome":"retryable",
				"obstacle":"verification_failed","attempt_began_at":"2026-11-23T01:00:10Z"}`),
			incarnation.Attempt("T-1", 1), incarnation,
			"attempt 10s+20s FAILED: verification_failed\ncoppice.task.id=T-1\ncoppice.task.attempt=1\n" +
				"coppice.task.outcome=retryable\ncoppice.task.obstacle=verification_failed\n" +
				"coppice.agent.path=shop/web/api\ncoppice.incarnation=7\nerror.type=verification_failed",
		},
		"a person has made the attempt": {
			at(5, event.TaskEscalated, "", 0, `{"id":"T-1","attempt":1,"attempt_outcome":"escalated",
				"attempt_began_at":"2026-11-23T01:00:10Z"}`),
			spanid.OwnAttempt("n", "T-1", 1), spanid.ID{},
			"attempt 10s+0s FAILED: escalated\ncoppice.task.id=T-1\ncoppice.task.attempt=1\n" +
				"coppice.task.outcome=escalated\nerror.type=escalated",
		},
		"a task is closed that nobody has tried": {
			event: at(30, event.TaskClosed, "", 0, `{"id":"T-1","outcome":"cancelled"}`),
		},
		"an attempt without its begin": {
			event: at(30, event.TaskClosed, path, 1, `{"id":"T-1","attempt":1,"attempt_outcome":"completed"}`),
		},
		"a run of an order": {
			at(99, event.OrderCompleted, "orders/nightly", 0, `{"order":"nightly","run":"r-7","attempt":1,
				"reason":"secret","status":"completed","code":0,"started_at":"2026-11-23T01:00:10Z",
				"ended_at":"2026-11-23T01:00:40Z","task":"T-9"}`),
			spanid.Order("n", "r-7", 1), spanid.ID{},
			"order nightly 10s+30s\ncoppice.order=nightly\ncoppice.order.run=r-7\ncoppice.order.attempt=1\n" +
				"coppice.order.status=completed\ncoppice.exit.code=0\ncoppice.task.id=T-9",
		},
		"its second attempt fails": {
			at(40, event.OrderFailed, "orders/nightly", 0, `{"order":"nightly","run":"r-7","attempt":2,"error":"secret",
				"status":"failed","code":3,"started_at":"2026-11-23T01:00:10Z"}`),
			spanid.Order("n", "r-7", 2), spanid.Order("n", "r-7", 1),
			"order nightly 10s+30s FAILED: exit code 3\ncoppice.order=nightly\ncoppice.order.run=r-7\n" +
				"coppice.order.attempt=2\ncoppice.order.status=failed\ncoppice.exit.code=3\nerror.type=failed",
		},
		"it takes too long": {
			at(40, event.OrderFailed, "orders/nightly", 0, `{"order":"nightly","run":"r-7","attempt":1,
				"status":"timed out","signal":"SIGKILL","started_at":"2026-11-23T01:00:10Z"}`),
			spanid.Order("n", "r-7", 1), spanid.ID{},
			"order nightly 10s+30s FAILED: signal SIGKILL\ncoppice.order=nightly\ncoppice.order.run=r-7\n" +
				"coppice.order.attempt=1\ncoppice.order.status=timed out\ncoppice.exit.signal=SIGKILL\n" +
				"error.type=timed out",
		},
		"it is stopped, which is no failure": {
			at(40, event.OrderFailed, "orders/nightly", 0, `{"order":"nightly","run":"r-7","attempt":1,
				"status":"stopped","started_at":"2026-11-23T01:00:10Z"}`),
			spanid.Order("n", "r-7", 1), spanid.ID{},
			"order nightly 10s+30s\ncoppice.order=nightly\ncoppice.order.run=r-7\ncoppice.order.attempt=1\n" +
				"coppice.order.status=stopped",
		},
		"it has not begun": {
			event: at(40, event.OrderFailed, "orders/nightly", 0, `{"order":"nightly","run":"r-7","status":"stopped"}`),
		},
		"nothing makes sense": {event: at(40, event.OrderFailed, "orders/nightly", 0, `{"order":7}`)},
	} {
		s := New("n").Add(c.event)
		if diff := cmp.Diff(c.want, shown(s)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if s != nil && (s.ID != c.id || s.Parent != c.parent) {
			t.Errorf("%s: %v below %v, want %v below %v", name, s.ID, s.Parent, c.id, c.parent)
		}
	}
}
