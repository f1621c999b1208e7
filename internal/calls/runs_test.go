package calls

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
)

func used(session string, cumulative bool, output int64) agentcli.Record {
	var r agentcli.Record
	r.Session = session
	r.SetUsage(agentcli.Models{"m": {Output: output}}, agentcli.FromStream)
	r.Cumulative = cumulative
	turns := int64(2)
	r.Turns = &turns
	return r
}

// What a run has used is the sum of its calls. A total of a session is counted once.
func TestSum(t *testing.T) {
	for name, c := range map[string]struct {
		all   callfile.Records
		want  agentcli.Models // nil: not known
		turns int64
	}{
		"nothing":       {callfile.Records{}, nil, 0},
		"nothing known": {callfile.Records{Calls: []agentcli.Record{{}}}, nil, 0},
		"calls": {
			callfile.Records{Used: 12, Calls: []agentcli.Record{used("a", false, 5), {}, used("b", false, 7)}},
			agentcli.Models{"m": {Output: 12}}, 4,
		},
		"a total": {
			callfile.Records{Used: 7, Calls: []agentcli.Record{used("a", true, 5), used("a", true, 7)}},
			agentcli.Models{"m": {Output: 7}}, 4,
		},
	} {
		r := sum(c.all)
		if (r.Turns == nil) != (c.want == nil) || r.Turns != nil && *r.Turns != c.turns {
			t.Errorf("%s: %v turns", name, r.Turns)
		}
		if (r.Tokens == nil) != (c.want == nil) || r.Tokens != nil && *r.Tokens != c.all.Used ||
			!reflect.DeepEqual(r.Usage, c.want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What the run of an Aidefile reports is passed on, and what an earlier run has left is not.
func TestFollowRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		p := newProcess()
		call := used("a", false, 5)
		call.Began = time.Now().Add(-time.Hour)
		h.setRuns(callfile.Records{Calls: []agentcli.Record{call}, Used: 5})
		h.Follow(who, p, &spec.Agent{Aide: &aidefile.Agent{}})
		time.Sleep(time.Minute)
		h.want()

		call.Began = time.Now()
		h.setRuns(callfile.Records{Calls: []agentcli.Record{call}, Running: &call, Used: 5})
		time.Sleep(maxRunPause)
		h.want("answered t/a", "progress t/a 3: 5")
		refused := agentcli.Record{Verdict: agentcli.Verdict{Obstacle: outcome.UsageLimit, Reason: "used up"}}
		h.setRuns(callfile.Records{Calls: []agentcli.Record{call}, Running: &call, Used: 5, Refused: &refused})
		time.Sleep(2 * maxRunPause)
		h.want("refused t/a: used up")
		h.Exported(who, exported)
		time.Sleep(maxRunPause)
		h.want("progress t/a 3: 12")
		p.end()
		synctest.Wait()
		h.setRuns(callfile.Records{Calls: []agentcli.Record{call, call}, Used: 10})
		time.Sleep(time.Minute)
		h.want()
	})
}
