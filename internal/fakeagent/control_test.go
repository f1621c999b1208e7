package fakeagent

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/limits"
)

// controlRequests has the controlRequests of package limits, and others.
const controlRequests = `{"type":"control_request","request_id":"coppice-initialize","request":{"subtype":"initialize"}}
no request
{"type":"control_request","request_id":"x","request":{"subtype":"dance"}}
{"type":"control_request","request_id":"coppice-usage","request":{"subtype":"get_usage"}}
`

// Claude answers what is left of its account as it was measured: nothing before it is initialized, and no limits of an
// API key. Only in the scenario used-up they are used up: in the others a run meets them.
func TestControl(t *testing.T) {
	set := Setting{Start: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)}
	for plan, used := range map[string]float64{"ok": 0.34, "quota": 0.34, "used-up": 1, "used-up@1h": 0.34} {
		p, err := Parse(plan)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		all := set.limits(p.At(0, "", 0), false)
		if code := answerControl(strings.NewReader(controlRequests), &out, all); code != 0 {
			t.Errorf("exit code %d", code)
		}
		a, err := limits.Parse([]byte(out.String()))
		if err != nil || len(a.Windows) != 2 || a.Extra || a.Windows[0].Used != used || a.Windows[1].Used != 0.12 ||
			!a.Windows[0].Resets.Equal(set.Start.Add(5*time.Hour)) {
			t.Errorf("%s: %+v, %v", plan, a, err)
		}
		if !strings.Contains(out.String(), `"error":"Unsupported control request subtype: dance"`) {
			t.Error(out.String())
		}
	}
	var out strings.Builder
	answerControl(strings.NewReader(controlRequests), &out, set.limits(Item{Scenario: OK}, true))
	if _, err := limits.Parse([]byte(out.String())); err != limits.ErrNoPlan {
		t.Errorf("an API key: %v", err)
	}
	out.Reset()
	_, late, _ := strings.Cut(controlRequests, "\n")
	if answerControl(strings.NewReader(late), &out, nil); out.Len() > 0 {
		t.Errorf("before it is initialized: %s", out.String())
	}
}
