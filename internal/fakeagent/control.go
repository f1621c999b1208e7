package fakeagent

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/limits"
)

// maxRequest bounds a control request, in bytes.
const maxRequest = 1 << 20

// answerControl answers the control requests of claude until there are no more, and returns its exit code. The limits
// of its account are nil if none apply. A prompt is not answered.
func answerControl(in io.Reader, out io.Writer, limits object) int {
	o := output{out: out, stream: true}
	answer := func(id string, response object) {
		response["request_id"] = id
		o.emit(object{"type": "control_response", "response": response})
	}
	begun := false
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		var r struct {
			ID      string `json:"request_id"`
			Request struct {
				Subtype string `json:"subtype"`
			} `json:"request"`
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.ID == "" {
			continue
		}
		switch kind := r.Request.Subtype; {
		case kind == "initialize":
			begun = true
			answer(r.ID, object{"subtype": "success", "response": object{"commands": []any{}, "models": []any{}}})
		case !begun: // as the real one
		case kind == "get_usage":
			answer(r.ID, object{"subtype": "success", "response": object{
				"session": object{"total_cost_usd": 0, "model_usage": object{}}, "behaviors": nil,
				"rate_limits_available": limits != nil, "rate_limits": limits,
			}})
		default:
			answer(r.ID, object{"subtype": "error", "error": "Unsupported control request subtype: " + kind})
		}
	}
	return 0
}

// limits returns what the server tells of the limits of an account, nil for an API key.
func (s Setting) limits(item Item, key bool) object {
	if key && item.Scenario != UsedUp {
		return nil
	}
	window := func(percent int, resets time.Time) object {
		return object{"utilization": percent, "resets_at": resets.UTC().Format(time.RFC3339)}
	}
	all := object{
		limits.FiveHour: window(34, s.Start.Add(5*time.Hour)), limits.SevenDay: window(12, s.Start.AddDate(0, 0, 7)),
		"extra_usage": object{"is_enabled": false},
	}
	if item.Scenario == UsedUp {
		all[limits.FiveHour] = window(100, roundUp(s.Start.Add(item.Until()), time.Second))
	}
	return all
}
