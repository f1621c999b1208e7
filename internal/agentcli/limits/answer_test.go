package limits

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

const initialized = `{"type":"control_response","response":{"subtype":"success","request_id":"coppice-initialize",` +
	`"response":{"commands":[]}}}`

// answers returns the output of claude with an answer.
func answers(limits string) string {
	return fmt.Sprintf(`{"type":"system","subtype":"hook_started"}
`+initialized+`
{"type":"control_response","response":{"subtype":"success","request_id":"coppice-usage","response":%s}}
`, limits)
}

// The answers are those of claude 2.1.332, with other numbers.
func TestParse(t *testing.T) {
	at := time.Date(2026, 11, 28, 11, 37, 9, 446391000, time.UTC)
	const resets = `"resets_at":"2026-11-28T11:37:09.446391+00:00"`
	window := func(name string, used float64) agentcli.Window {
		return agentcli.Window{Name: name, Used: used, Resets: at, Rejected: used == 1}
	}
	limits := func(text string) string {
		return answers(`{"session":{"total_cost_usd":0},"subscription_type":"max","rate_limits_available":true,` +
			`"rate_limits":` + text + `,"behaviors":null}`)
	}
	for name, c := range map[string]struct {
		output  string
		windows []agentcli.Window
		extra   bool
	}{
		"as measured": {limits(`{"five_hour":{"utilization":100,` + resets +
			`},"seven_day":{"utilization":20,` + resets + `},"seven_day_oauth_apps":{"utilization":1},` +
			`"seven_day_opus":null,"seven_day_sonnet":{"utilization":3,` + resets +
			`},"extra_usage":{"is_enabled":false,"monthly_limit":null,"used_credits":null,"utilization":null}}`),
			[]agentcli.Window{window(FiveHour, 1), window(SevenDay, 0.2), window("seven_day_sonnet", 0.03)}, false},
		"models": {limits(`{"seven_day_opus":{"utilization":50,` + resets +
			`},"model_scoped":[{"display_name":"Fable",` +
			`"utilization":100,` + resets + `},{"display_name":"Opus","utilization":1,` + resets +
			`},{"display_name":"Opus 4","utilization":2},{"display_name":"x","utilization":null}]}`),
			[]agentcli.Window{window("seven_day_fable", 1), window("seven_day_opus", 0.5)}, false},
		"none told": {limits("null"), nil, false},
		"no time": {
			limits(`{"five_hour":{"utilization":7,"resets_at":null}}`),
			[]agentcli.Window{{Name: FiveHour, Used: 0.07}}, false,
		},
		"wrong types": {
			limits(`{"five_hour":7,"seven_day":{"utilization":"7"},"model_scoped":{},"extra_usage":[]}`),
			nil, false,
		},
		"wrong numbers": {
			limits(`{"five_hour":{"utilization":-7},"seven_day":{"utilization":1e300}}`),
			[]agentcli.Window{{Name: SevenDay, Used: 1, Rejected: true}}, false,
		},
		"extra": {limits(`{"extra_usage":{"is_enabled":true}}`), nil, true},
		"extra left": {
			limits(`{"extra_usage":{"is_enabled":true,"monthly_limit":50,"used_credits":49,"utilization":98}}`),
			nil, true,
		},
		"extra spent": {
			limits(`{"extra_usage":{"is_enabled":true,"monthly_limit":50,"used_credits":50}}`), nil, false,
		},
		"extra all spent": {limits(`{"extra_usage":{"is_enabled":true,"utilization":100}}`), nil, false},
		"extra disabled":  {limits(`{"extra_usage":{"is_enabled":false,"utilization":1}}`), nil, false},
	} {
		got, err := Parse([]byte(c.output))
		same := slices.EqualFunc(got.Windows, c.windows, func(a, b agentcli.Window) bool {
			return a.Name == b.Name && a.Used == b.Used && a.Resets.Equal(b.Resets) && a.Rejected == b.Rejected
		})
		if err != nil || !same || got.Extra != c.extra {
			t.Errorf("%s: %+v, %v; expected %+v, %v", name, got, err, c.windows, c.extra)
		}
	}
}

// Without an answer there is an error, which says why.
func TestParseErrors(t *testing.T) {
	const refused = `{"type":"control_response","response":{"subtype":"error","request_id":"coppice-usage",` +
		`"error":"Unsupported control request subtype: get_usage"}}`
	for output, expected := range map[string]string{
		"":                                   "it has not answered",
		"coppice-usage":                      "it has not answered",
		strings.Repeat(`{"a":`, 1000):        "it has not answered",
		`{"coppice-usage":`:                  "it has not answered",
		refused:                              "it refuses to answer: Unsupported control request subtype: get_usage",
		answers(`{"rate_limits":{}}`):        ErrNoPlan.Error(),
		answers(`7`):                         "reading its answer: ",
		answers(`{"rate_limits":[1,2,"x"]}`): "reading its answer: ",
	} {
		if _, err := Parse([]byte(output)); err == nil || !strings.HasPrefix(err.Error(), expected) {
			t.Errorf("%.80s: %v, expected %s", output, err, expected)
		}
	}
	none := []byte(answers(`{"rate_limits_available":false,"rate_limits":null}`))
	if _, err := Parse(none); !errors.Is(err, ErrNoPlan) {
		t.Error(err)
	}
}

// Whatever a program prints, what is read of it is bounded, and shares are shares.
func FuzzParse(f *testing.F) {
	f.Add([]byte(answers(`{"rate_limits_available":true,"rate_limits":{"five_hour":{"utilization":100,` +
		`"resets_at":"2026-11-28T11:37:09Z"},"model_scoped":[{"display_name":"Opus","utilization":1}],` +
		`"extra_usage":{"is_enabled":true}}}`)))
	f.Fuzz(func(t *testing.T, output []byte) {
		a, err := Parse(output)
		if err != nil && (len(a.Windows) > 0 || a.Extra) {
			t.Errorf("%+v with %v", a, err)
		}
		if len(a.Windows) > 4+maxModels {
			t.Errorf("%d windows", len(a.Windows))
		}
		for _, w := range a.Windows {
			if !(w.Used >= 0 && w.Used <= 1) || len(w.Name) > len(ModelPrefix)+maxName {
				t.Errorf("%+v", w)
			}
		}
	})
}
