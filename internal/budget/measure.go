package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// Measure compares what is used with a limit.
type Measure struct {
	_       struct{} `schema:"BudgetLimit" doc:"A limit of a budget, and what is used of it."`
	Limit   string   `json:"limit" enum:"tokens,dollars,turns,time,runs" doc:"What is limited."`
	Used    float64  `json:"used" minimum:"0" doc:"What is used, as far as it is known; time in seconds. Of a budget per run or task, that of the one with the most."`
	Max     float64  `json:"max" minimum:"0" doc:"What may be used."`
	Unknown int64    `json:"unknown" minimum:"0" doc:"Calls whose use is not known, and not in used."`
}

// The names of limits.
const (
	limitTokens  = "tokens"
	limitDollars = "dollars"
	limitTurns   = "turns"
	limitTime    = "time"
	limitRuns    = "runs"
)

// measures compares what is used with the limits of a budget, each of which was raised some times by as much again.
func measures(b *spec.Budget, used cost.Sum, raised int) (all []Measure) {
	for _, m := range []Measure{
		{Limit: limitTokens, Used: float64(used.Tokens), Max: float64(b.Tokens), Unknown: used.UnknownTokens},
		{Limit: limitDollars, Used: used.Dollars, Max: b.Dollars, Unknown: used.UnknownDollars},
		{Limit: limitTurns, Used: float64(used.Turns), Max: float64(b.Turns), Unknown: used.UnknownTurns},
		{Limit: limitTime, Used: used.Time.Seconds(), Max: b.Time.Seconds()},
		{Limit: limitRuns, Used: float64(used.Runs), Max: float64(b.Runs)},
	} {
		if m.Max > 0 {
			m.Max *= float64(1 + raised)
			all = append(all, m)
		}
	}
	return all
}

// isReached reports whether nothing is left of the limit.
func (m Measure) isReached() bool { return m.Used >= m.Max }

// reached returns the first limit of which nothing is left. A limit of runs comes last: the others end those that run.
func reached(all []Measure) (Measure, bool) {
	for _, m := range all {
		if m.isReached() {
			return m, true
		}
	}
	return Measure{}, false
}

// ends reports whether reaching the limit ends runs in progress. The last run that may begin goes on.
func (m Measure) ends() bool { return m.Limit != limitRuns }

// raisesNeeded returns how often a budget has to be raised, in all, so that there is room again; at least once more.
func raisesNeeded(b *spec.Budget, used cost.Sum, raised int) int {
	n := raised + 1
	for _, m := range measures(b, used, 0) {
		n = max(n, int(math.Min(m.Used/m.Max, maxRaised)))
	}
	return min(n, maxRaised)
}

// maxRaised bounds how often a budget is raised.
const maxRaised = 1_000_000

// String says how much is used.
func (m Measure) String() string {
	used, most := m.number(m.Used), m.number(m.Max)
	if m.Unknown > 0 {
		used = ">= " + used
	}
	return fmt.Sprintf("%s of %s %s", used, most, m.Limit)
}

// number returns an amount for people.
func (m Measure) number(n float64) string {
	switch m.Limit {
	case limitDollars:
		return strconv.FormatFloat(n, 'f', 2, 64)
	case limitTime:
		return timespan.Short(time.Duration(n * float64(time.Second)))
	}
	return plaintext.Thousands(int64(min(n, math.MaxInt64/2)))
}

// Percent returns how much is used, in percent.
func (m Measure) Percent() int { return int(min(999, 100*m.Used/m.Max)) }

// texts joins what is used of all limits.
func texts(all []Measure) string {
	var parts []string
	for _, m := range all {
		parts = append(parts, m.String())
	}
	return strings.Join(parts, ", ")
}
