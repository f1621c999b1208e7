package reconcile

import (
	"maps"
	"time"
)

// attempts counts, by path, how often in a row an action was planned again without effect.
type attempts map[string]attempt

type attempt struct {
	kind  Kind
	times int
	ended time.Time // zero while the action is in progress
}

// firstRetry is the delay before an action without effect is repeated. After quickRetries
// attempts the delay doubles each time, up to the interval between two passes.
const (
	firstRetry   = 10 * time.Millisecond
	quickRetries = 50
)

// filter removes actions that were carried out just before, without effect, until something
// has changed or their delay is over: otherwise one pass would follow the other.
func (as attempts) filter(res *Result, now time.Time, longest time.Duration, changed bool, busy func(string) bool) {
	planned := make(map[string]bool, len(res.Actions))
	due := res.Actions[:0]
	for _, a := range res.Actions {
		planned[a.Path] = true
		t := as[a.Path]
		if t.kind != a.Kind || t.ended.IsZero() {
			t = attempt{kind: a.Kind}
		}
		if t.times > 0 {
			at := t.ended.Add(min(firstRetry<<min(max(0, t.times-quickRetries), 20), longest))
			if at.After(now) && !changed {
				if res.Next.IsZero() || at.Before(res.Next) {
					res.Next = at
				}
				continue
			}
		}
		t.times, t.ended = t.times+1, time.Time{}
		as[a.Path] = t
		due = append(due, a)
	}
	res.Actions = due
	maps.DeleteFunc(as, func(path string, _ attempt) bool { return !planned[path] && !busy(path) })
}

// end notes that the action at a path is over.
func (as attempts) end(path string, now time.Time) {
	if t, ok := as[path]; ok {
		t.ended = now
		as[path] = t
	}
}
