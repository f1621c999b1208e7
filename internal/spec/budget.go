package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Budget limits what agents use.
type Budget struct {
	Name string
	// Of are patterns, see MatchesPath. If there are none, it is of all agents.
	Of []string
	// Quota is the name of an account. If it is set, only what uses that account counts.
	Quota string
	Per   Period
	// Limits; one that is 0 is none.
	Tokens  int64
	Dollars float64
	Turns   int64
	Time    time.Duration
	Runs    int64
	// Refuse has agents refused whose use is not reported. Otherwise there is a notice.
	Refuse bool
}

// Period says what a budget sums up.
type Period string

const (
	PerDay  Period = "day"  // all that it covers, on a local date
	PerRun  Period = "run"  // each run alone
	PerTask Period = "task" // all runs that work at a task
)

// Periods returns all periods, the default first.
func Periods() []Period { return []Period{PerDay, PerRun, PerTask} }

// Covers reports whether the budget is of an agent.
func (b *Budget) Covers(at string) bool {
	return len(b.Of) == 0 || slices.ContainsFunc(b.Of, func(p string) bool { return MatchesPath(p, at) })
}

// MaxBudgets bounds the number of budgets.
const MaxBudgets = 100

// CheckBudgets returns the faults of budgets, whose Decl is an index of budgets, and the notices about them. If partial
// is true, a program adds more agents to the tree.
func CheckBudgets(tree *Tree, budgets []Budget, quotas []Quota, partial bool) (faults, notices []Problem) {
	d, byName := newDeclared(tree), map[string]int{}
	var names []string
	for _, q := range quotas {
		names = append(names, q.Name)
	}
	patterns := 0
	for i, b := range budgets {
		c := checker{i, &faults}
		c.checkUnique("budget", b.Name, byName)
		patterns += len(b.Of)
		if b.Quota != "" && !slices.Contains(names, b.Quota) && !IsAutomaticQuota(b.Quota) {
			c.problem([]string{"quota"}, DidYouMean(b.Quota, names...),
				"there is no quota %s, expected the name of one", Quote(b.Quota))
		}
		switch {
		case b.Tokens == 0 && b.Dollars == 0 && b.Turns == 0 && b.Time == 0 && b.Runs == 0:
			c.problem(nil, "", "the budget %s limits nothing, expected tokens, dollars, turns, time or runs",
				Quote(b.Name))
		case b.Per == PerRun && b.Runs > 0:
			c.problem([]string{"runs"}, `write per = "day" or per = "task"`,
				"runs is %d, expected none where the budget is per run", b.Runs)
		}
	}
	if len(budgets) > MaxBudgets || patterns > MaxPatterns {
		checker{0, &faults}.problem(nil, "", "there are %d budgets with %d patterns, expected at most %d and %d",
			len(budgets), patterns, MaxBudgets, MaxPatterns)
		return faults, nil
	}
	for i, b := range budgets {
		c := checker{i, &faults}
		for n, pattern := range b.Of {
			at := []string{"of", strconv.Itoa(n)}
			if c.checkPattern(at, pattern) && !partial && !d.matchesAny(pattern) {
				d.matchesNone(c, at, pattern)
			}
		}
		if text := b.unreported(d.agents); text != "" {
			to := &notices
			if b.Refuse {
				to = &faults
			}
			checker{i, to}.problem(nil, "", "%s", text)
		}
	}
	return faults, notices
}

// Unreported returns the limits that an agent never reaches, because its command line does not report what they limit.
func (b *Budget) Unreported(a *Agent) (limits []string) {
	cli := a.CommandLine()
	unknown := cli == agentcli.Plain || cli == ""
	if b.Tokens > 0 && unknown {
		limits = append(limits, "tokens")
	}
	if b.Dollars > 0 && cli != agentcli.Claude && cli != agentcli.Opencode {
		limits = append(limits, "dollars")
	}
	if b.Turns > 0 && unknown {
		limits = append(limits, "turns")
	}
	return limits
}

// unreported says which agents use what the budget limits and do not report it; empty if there are none.
func (b *Budget) unreported(agents map[string]*Agent) string {
	const most = 3
	var all []string
	for _, at := range slices.Sorted(maps.Keys(agents)) {
		a := agents[at]
		if !b.Covers(at) {
			continue
		}
		if limits := b.Unreported(a); len(limits) > 0 {
			all = append(all, fmt.Sprintf("%s (%s: %s)", at, a.CommandLine(), strings.Join(limits, ", ")))
		}
	}
	if len(all) == 0 {
		return ""
	}
	text := strings.Join(all[:min(most, len(all))], ", ")
	if n := len(all) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("the budget %s covers what does not report all that it limits: %s; such use is not counted",
		Quote(b.Name), text)
}
