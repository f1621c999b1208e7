package calls

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/token"
)

// The pause between two looks at what a run has reported grows from minRunPause to maxRunPause while nothing changes.
const (
	minRunPause = time.Second
	maxRunPause = 4 * time.Second
)

// run follows a run that reports its calls itself.
type run struct {
	m       *Manager
	who     token.Caller
	process Process

	mu       sync.Mutex
	exported agentcli.Stream // over OTLP, by all calls of the run
}

// export adds what the calls of the run export of their use.
func (r *run) export(all []agentcli.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range all {
		r.exported.Add(e)
	}
}

// sum returns what the run has used so far, given what is known of its calls.
func (r *run) sum(all callfile.Records) agentcli.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := sum(all)
	s.AddExport(r.exported.Report())
	return s
}

// follow follows the run until it has ended.
func (r *run) follow(ctx context.Context) {
	m, who, p := r.m, r.who, r.process
	var refusal refusal
	var last agentcli.Record
	var verdict agentcli.Verdict // of the last refusal
	began, answered := time.Now(), 0
	pause := minRunPause
	for {
		select {
		case <-time.After(pause):
		case <-p.Session().Done():
			return
		case <-ctx.Done():
			return
		}
		all := m.opts.Runs(who.Path)
		if isEarlier(all, p.Session().Observe().StartedAt) {
			continue
		}
		if n := answers(all); n > answered {
			answered = n
			m.opts.Quotas.Answered(who.Path, began)
		}
		told := all.Refused != nil && all.Refused.Verdict != verdict
		if told {
			verdict = all.Refused.Verdict
		}
		if refusal.update(time.Now(), told, all.Refused != nil) {
			m.opts.Quotas.Refused(who.Path, *all.Refused)
		}
		pause = min(maxRunPause, pause*3/2)
		if s := r.sum(all); !reflect.DeepEqual(s, last) {
			last, pause = s, minRunPause
			m.opts.Progress(who.Path, who.Incarnation, s)
		}
		if refusal.waits() {
			pause = minRunPause
		}
	}
}

// isEarlier reports whether calls are those of an earlier run than the one that was started at a time.
func isEarlier(all callfile.Records, started time.Time) bool {
	return len(all.Calls) > 0 && all.Calls[0].Began.Before(started.Add(-startMargin))
}

// answers returns how many calls of a run the model has answered.
func answers(all callfile.Records) int {
	n := all.Dropped
	for _, r := range all.Calls {
		if r.Calls > 0 || r.Tokens != nil && *r.Tokens > 0 {
			n++
		}
	}
	return n
}

// sum returns what a run has used so far, with all of its calls, as one record. Of a total of a session it has what the
// run has added to it.
func sum(all callfile.Records) (r agentcli.Record) {
	if len(all.Calls) == 0 {
		return r
	}
	r = all.Calls[len(all.Calls)-1]
	r.Verdict, r.Ended = agentcli.Verdict{}, time.Time{}
	r.Began = all.Calls[0].Began
	used, sessions := agentcli.Models{}, map[string]agentcli.Models{}
	known, turns := false, int64(0)
	r.Turns, r.Calls, r.Succeeded, r.Denied, r.Retries = nil, 0, 0, 0, 0
	for _, c := range all.Calls {
		counts, total := c.Count(sessions[c.Session])
		if c.Session != "" {
			sessions[c.Session] = total
		}
		for model, u := range counts {
			used[model] = used[model].Plus(u)
		}
		known = known || c.Tokens != nil
		if c.Turns != nil {
			turns += *c.Turns
			r.Turns = &turns
		}
		r.Calls, r.Succeeded = r.Calls+c.Calls, r.Succeeded+c.Succeeded
		r.Denied, r.Retries = r.Denied+c.Denied, r.Retries+c.Retries
	}
	r.DropUsage()
	if known {
		r.SetUsage(used, all.Calls[len(all.Calls)-1].UsageFrom)
		tokens := all.Used
		r.Tokens = &tokens
	}
	r.Unknown = maps.Clone(r.Unknown)
	return r
}
