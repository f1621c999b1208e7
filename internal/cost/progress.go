package cost

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// progress has the use of incarnations that run, by path. It is lost with the daemon: the next one reads it again.
type progress struct {
	mu   sync.Mutex
	runs map[string]running
}

// running is an incarnation that runs, until the ledger has counted it.
type running struct {
	incarnation uint64
	counted     bool
	record      agentcli.Record
}

// set takes note of what an incarnation has used.
func (p *progress) set(path string, incarnation uint64, r agentcli.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.runs[path]; old.counted && incarnation <= old.incarnation { // it comes late
		return
	}
	p.runs[path] = running{incarnation, false, r}
}

// count takes note that the ledger has counted an incarnation.
func (p *progress) count(path string, incarnation uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if incarnation >= p.runs[path].incarnation {
		p.runs[path] = running{incarnation: incarnation, counted: true}
	}
}

// get returns the incarnations that are not counted yet.
func (p *progress) get() map[string]running {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := maps.Clone(p.runs)
	maps.DeleteFunc(all, func(_ string, r running) bool { return r.counted })
	return all
}

// has reports whether none of some incarnations was counted since they were got.
func (p *progress) has(all map[string]running) bool {
	now := p.get()
	for path, r := range all {
		if still, ok := now[path]; !ok || still.incarnation != r.incarnation {
			return false
		}
	}
	return true
}

// Progress takes note of what an incarnation has used so far, and returns what it would count if it ended now. Reports
// have it until it is counted.
func (l *Ledger) Progress(ctx context.Context, path string, incarnation uint64, r agentcli.Record) (Sum, error) {
	l.progress.set(path, incarnation, r)
	a, err := l.estimate(ctx, Run{Agent: path}.entry(r, time.Now()))
	return a.sum(), err
}

// estimate returns what a call would count if it ended now.
func (l *Ledger) estimate(ctx context.Context, e Entry) (amount, error) {
	var w write
	var t total
	if e.Cumulative && e.Session != "" && e.CLI != "" {
		t = read[total](ctx, l, &w, session{e.CLI, e.Session}.key())
	}
	a, _ := e.amount(t.Usage)
	return a, w.err
}

// addRunning adds what incarnations have used so far.
func (l *Ledger) addRunning(ctx context.Context, sum *summary, all map[string]running, now time.Time) error {
	for path, r := range all {
		task, _ := l.Task(path, r.incarnation)
		e := Run{Agent: path, Task: task}.entry(r.record, now)
		e.Running = true
		e.Pool, e.Account = l.Owner(path)
		a, err := l.estimate(ctx, e)
		if err != nil {
			return err
		}
		sum.add(dateOf(now), path, row{e.Account, e.Pool, e.Task, a})
	}
	return nil
}
