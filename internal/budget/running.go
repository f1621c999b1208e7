package budget

import (
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
)

// put takes note of the last run of an agent.
func (s *state) put(r *run) {
	s.drop(r.path)
	s.runs[r.path] = r
	s.adjust(r, 1)
}

// drop forgets the last run of an agent, if there is one.
func (s *state) drop(path string) {
	if r := s.runs[path]; r != nil {
		s.adjust(r, -1)
		delete(s.runs, path)
	}
}

// use replaces what a run has used, and the account that it uses.
func (s *state) use(r *run, account string, used cost.Sum) {
	if r.account != account || r.used != used {
		r.account, r.used, s.using = account, used, nil
	}
}

// adjust counts a run more or less. A fleet that starts or fails as a whole has runs that have used nothing yet: these
// are counted without a look at the others. After others the sums are made again, so that they stay exact.
func (s *state) adjust(r *run, runs int64) {
	switch {
	case s.using == nil:
	case r.used != cost.Sum{}:
		s.using = nil
	default:
		s.covering(r.path, r.account, func(i int) { s.using[i].Runs += runs })
	}
}

// days returns what everything that each budget covers has used today. It has the time of runs for budgets that limit
// the time per day.
func (s *state) days(now time.Time) []cost.Sum {
	if len(s.budgets) == 0 {
		return nil
	}
	if s.totals == nil {
		s.totals = make([]cost.Sum, len(s.budgets))
		for path, accounts := range s.counted {
			for account, sum := range accounts {
				s.covering(path, account, func(i int) { s.totals[i] = s.totals[i].Plus(sum) })
			}
		}
	}
	if s.using == nil {
		s.using = make([]cost.Sum, len(s.budgets))
		for path, r := range s.runs {
			sum := r.used
			sum.Runs = 1
			s.covering(path, r.account, func(i int) { s.using[i] = s.using[i].Plus(sum) })
		}
	}
	used := make([]cost.Sum, len(s.budgets))
	for i := range used {
		used[i] = s.totals[i].Plus(s.using[i])
		if b := &s.budgets[i]; b.Per == spec.PerDay && b.Time > 0 {
			for _, r := range s.covered(b) {
				used[i] = used[i].Plus(cost.Sum{Counts: cost.Counts{Time: r.sum(now).Time}})
			}
		}
	}
	return used
}
