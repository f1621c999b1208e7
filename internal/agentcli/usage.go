package agentcli

import "math"

// Usage counts the tokens that calls of a model have used. The numbers are never negative.
type Usage struct {
	Input      int64   `json:"input"`       // neither read from a cache nor written to one
	CacheRead  int64   `json:"cache_read"`  // input that was read from a cache
	CacheWrite int64   `json:"cache_write"` // input that was written to a cache
	Output     int64   `json:"output"`      // including reasoning
	Dollars    float64 `json:"dollars"`     // as the command line reports them: an estimate; 0 if it does not
}

// Tokens returns the tokens that count: all except those that were read from a cache.
func (u Usage) Tokens() int64 { return Add(Add(u.Input, u.CacheWrite), u.Output) }

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{Add(u.Input, v.Input), Add(u.CacheRead, v.CacheRead), Add(u.CacheWrite, v.CacheWrite),
		Add(u.Output, v.Output), max(0, u.Dollars+v.Dollars)}
}

// Minus returns the difference of two usages. What would be negative is 0.
func (u Usage) Minus(v Usage) Usage {
	return Usage{max(0, u.Input-v.Input), max(0, u.CacheRead-v.CacheRead), max(0, u.CacheWrite-v.CacheWrite),
		max(0, u.Output-v.Output), max(0, u.Dollars-v.Dollars)}
}

// highest returns the higher of each number.
func (u Usage) highest(v Usage) Usage {
	return Usage{max(u.Input, v.Input), max(u.CacheRead, v.CacheRead), max(u.CacheWrite, v.CacheWrite),
		max(u.Output, v.Output), max(u.Dollars, v.Dollars)}
}

// Models is usage by the name of a model; the name is "" if it is not known.
type Models map[string]Usage

// Total returns the sum over all models.
func (m Models) Total() (sum Usage) {
	for _, u := range m {
		sum = sum.Plus(u)
	}
	return sum
}

// named returns the usage of a model if none has a name, as of a run of codex, which names it once.
func (m Models) named(model string) Models {
	u, unnamed := m[""]
	if !unnamed || len(m) != 1 || model == "" {
		return m
	}
	return Models{model: u}
}

// maxModels bounds the models that are told apart.
const maxModels = 100

func (m *Models) add(model string, u Usage) {
	if *m == nil {
		*m = Models{}
	}
	if _, known := (*m)[model]; !known && len(*m) >= maxModels {
		model = ""
	}
	(*m)[model] = (*m)[model].Plus(u)
}

// tally sums up what a command line reports of its usage on the way and at the end.
type tally struct {
	known    bool
	settled  Models             // what totals have confirmed
	open     Models             // messages since then
	messages map[string]counted // by ID; a message may be reported several times
	turns    int64              // messages, each counted once
}

// counted is what was counted of a message.
type counted struct {
	model string
	usage Usage
}

// maxMessages bounds the messages that are told apart.
const maxMessages = 100_000

// message counts a message. Of several reports of a message the highest numbers count.
func (t *tally) message(model, id string, u Usage) {
	t.known = true
	if id == "" || len(id) > 200 || len(t.messages) >= maxMessages {
		t.turns++
		t.open.add(model, u)
		return
	}
	if t.messages == nil {
		t.messages = map[string]counted{}
	}
	was, known := t.messages[id]
	if !known {
		t.turns++
	}
	if model == "" {
		model = was.model
	}
	now := was.usage.highest(u)
	t.messages[id] = counted{model, now}
	t.open.add(model, now.Minus(was.usage))
}

// part counts what was used since the last part, which replaces the messages since then. A part without
// tokens replaces nothing, since a command line that crashes may report zeros.
func (t *tally) part(m Models) {
	t.known = true
	if m.Total().Tokens() == 0 {
		return
	}
	for model, u := range m {
		t.settled.add(model, u)
	}
	t.open = nil
}

// total records the total, which replaces everything before it unless it is without tokens.
func (t *tally) total(m Models) {
	t.known = true
	if m.Total().Tokens() == 0 {
		return
	}
	t.settled, t.open = nil, nil
	for model, u := range m {
		t.settled.add(model, u)
	}
}

// atLeast records a total that may lack the messages of subagents: it replaces an earlier total, and messages
// unless they are more.
func (t *tally) atLeast(m Models) {
	t.known = true
	if m.Total().Tokens() >= t.open.Total().Tokens() {
		t.total(m)
	}
}

// models returns the sums.
func (t *tally) models() Models {
	var m Models
	for _, part := range []Models{t.settled, t.open} {
		for model, u := range part {
			if u != (Usage{}) {
				m.add(model, u)
			}
		}
	}
	return m
}

// Add adds tokens without overflow. Negative numbers count as 0.
func Add(a, b int64) int64 {
	a, b = max(0, a), max(0, b)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
