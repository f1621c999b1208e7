package limits

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Answer has the limits of an account, as its command line has told them.
type Answer struct {
	// Windows are the limits, sorted by name: FiveHour, SevenDay, and ModelPrefix with the name of a model. They are
	// empty if its server has told none.
	Windows []agentcli.Window
	// Extra says that the account serves beyond its plan, for money, and that some is left.
	Extra bool
}

// Names of windows.
const (
	FiveHour    = "five_hour"
	SevenDay    = "seven_day"
	ModelPrefix = SevenDay + "_" // the name of a model follows, in lower case
)

// Errors of Parse.
var (
	ErrNoAnswer = errors.New("it has not answered")
	ErrNoPlan   = errors.New("no limits of a plan apply to the account")
)

// control is an answer to a control request.
type control struct {
	Type     string `json:"type"`
	Response struct {
		Subtype string `json:"subtype"`
		ID      string `json:"request_id"`
		Error   string `json:"error"`
		Usage   struct {
			Available bool                       `json:"rate_limits_available"`
			Limits    map[string]json.RawMessage `json:"rate_limits"`
		} `json:"response"`
	} `json:"response"`
}

// window is a limit in an answer.
type window struct {
	Name   string   `json:"display_name"` // of a model, in a list
	Used   *float64 `json:"utilization"`  // percent
	Resets string   `json:"resets_at"`
}

// Bounds of an answer.
const (
	maxModels = 20 // with a limit of their own
	maxName   = 40 // bytes of the name of a model
)

// Parse reads the output of a question. A limit of an unexpected form is left out. The error is ErrNoPlan, or wraps
// ErrNoAnswer, or says what the command line has answered instead.
func Parse(output []byte) (Answer, error) {
	for line := range bytes.Lines(output) {
		if !bytes.HasPrefix(line, []byte(`{`)) || !bytes.Contains(line, []byte(usageID)) {
			continue
		}
		var c control
		err := json.Unmarshal(line, &c)
		switch r := c.Response; {
		case c.Type != "control_response" || r.ID != usageID:
			continue
		case r.Subtype != "success":
			return Answer{}, fmt.Errorf("it refuses to answer: %s", plaintext.OneLine(cmp.Or(r.Error, r.Subtype), 200))
		case err != nil:
			return Answer{}, fmt.Errorf("reading its answer: %w", err)
		case !r.Usage.Available:
			return Answer{}, ErrNoPlan
		default:
			return answer(r.Usage.Limits), nil
		}
	}
	return Answer{}, ErrNoAnswer
}

// answer reads the limits of an account.
func answer(limits map[string]json.RawMessage) (a Answer) {
	add := func(name string, w window) {
		if w.Used == nil || *w.Used < 0 || slices.ContainsFunc(a.Windows, func(o agentcli.Window) bool {
			return o.Name == name
		}) {
			return
		}
		resets, _ := time.Parse(time.RFC3339, w.Resets)
		share := min(1, *w.Used/100)
		a.Windows = append(a.Windows, agentcli.Window{Name: name, Used: share, Resets: resets, Rejected: share == 1})
	}
	for _, name := range []string{FiveHour, SevenDay, ModelPrefix + "opus", ModelPrefix + "sonnet"} {
		var w window
		if json.Unmarshal(limits[name], &w) == nil {
			add(name, w)
		}
	}
	var models []window
	if json.Unmarshal(limits["model_scoped"], &models) == nil {
		for _, w := range models[:min(maxModels, len(models))] {
			if isModel(w.Name) {
				add(ModelPrefix+strings.ToLower(w.Name), w)
			}
		}
	}
	slices.SortFunc(a.Windows, func(a, b agentcli.Window) int { return cmp.Compare(a.Name, b.Name) })
	var extra struct {
		Enabled bool     `json:"is_enabled"`
		Used    *float64 `json:"utilization"`
		Limit   *float64 `json:"monthly_limit"`
		Credits *float64 `json:"used_credits"`
	}
	if json.Unmarshal(limits["extra_usage"], &extra) == nil {
		spent := extra.Used != nil && *extra.Used >= 100 ||
			extra.Limit != nil && extra.Credits != nil && *extra.Credits >= *extra.Limit
		a.Extra = extra.Enabled && !spent
	}
	return a
}

// isModel reports whether the name of a limit is that of a family of models, such as Opus.
func isModel(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(strings.ToLower(name), func(r rune) bool {
		return r < 'a' || r > 'z'
	})
}
