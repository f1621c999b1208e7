package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/liveness"
	"github.com/coppice-dev/coppice/supervisor"
)

// explainPool adds to an explanation what there is to say of a pool, or of an
// instance that its pool does not want any more.
func (c *Controller) explainPool(x *api.Explanation) {
	if d, ok := c.drains.Of(x.Node.Path); ok && d.Pool {
		x.Hint = "its pool says how many it wants: coppice explain " + parent(x.Node.Path)
		return
	}
	w := c.crews.of(x.Node.Path)
	if w == nil {
		return
	}
	if w.isRetired() {
		x.Rule = "it is no longer in the file; its instances may finish"
		x.Next, x.Hint = "it is gone with the last of its instances", "to stop them now: coppice stop "+x.Node.Path
		return
	}
	now, interval := time.Now(), w.interval()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.template.Pool
	evidence := []string{fmt.Sprintf("%s wanted, of %s that may be", instances(w.demand.Size(p)), bounds(p))}
	switch {
	case w.demand.Known && p.Check == nil:
		evidence = append(evidence, "it has no check: one instance is wanted, within these bounds")
	case w.demand.Known:
		evidence = append(evidence, fmt.Sprintf("the check said %d last", w.demand.Asked))
	default:
		evidence = append(evidence, "the check has not answered yet: until then it is the minimum")
	}
	if w.demand.Problem != nil {
		evidence = append(evidence, fmt.Sprintf("the last check, %v ago, gave no answer, so that this holds: %v", ago(w.checkedAt, now), w.demand.Problem))
	}
	x.Evidence = slices.Concat(evidence, x.Evidence)
	if x.Node.State != supervisor.Running.String() && x.Node.State != api.Degraded {
		return
	}
	switch {
	case !w.booted:
		x.Next = "the first instance is started when on_boot has run"
	case w.checking:
		x.Next = "the check runs; what it says is done at once"
	case !w.checkedAt.IsZero() && p.Check != nil:
		x.Next = fmt.Sprintf("the check runs again in %s", liveness.Brief(max(0, interval-now.Sub(w.checkedAt)).Round(time.Second)))
	}
}
