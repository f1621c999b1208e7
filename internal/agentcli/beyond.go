package agentcli

import (
	"maps"
	"slices"
)

// Beyond returns what a total of a session counts if the last known total of the session was counted before. A total
// that is lower than the last one has begun again at 0, and counts as it is: the command line has forgotten the
// earlier runs of the session. Tokens without the name of a model are those of any model.
func Beyond(last, reported Models) Models {
	if reported.Total().Tokens() < last.Total().Tokens() {
		return maps.Clone(reported)
	}
	rest, counted := maps.Clone(reported), maps.Clone(last)
	for model := range rest {
		rest.settle(model, counted, model)
	}
	names := slices.Sorted(maps.Keys(rest))
	for _, model := range slices.Sorted(maps.Keys(counted)) {
		rest.settle("", counted, model)
	}
	for _, model := range names {
		rest.settle(model, counted, "")
	}
	maps.DeleteFunc(rest, func(_ string, u Usage) bool { return u == Usage{} })
	return rest
}

// settle takes as much of a model of counted from a model of m as both have.
func (m Models) settle(model string, counted Models, of string) {
	u, ok := m[model]
	c, counts := counted[of]
	if ok && counts {
		m[model], counted[of] = u.Minus(c), c.Minus(u)
	}
}

// Count returns the usage of a run that counts in addition to the last known total of its session, and the total
// from then on, which is the last one for the next run of the session. last is nil if the session is new.
func (r Record) Count(last Models) (used, total Models) {
	if r.Tokens == nil {
		return nil, last
	}
	if r.Cumulative {
		return Beyond(last, r.Usage), r.Usage
	}
	for _, m := range []Models{last, r.Usage} {
		for model, u := range m {
			total.add(model, u)
		}
	}
	return r.Usage, total
}
