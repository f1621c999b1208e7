package agentcli

import "encoding/json"

// number is a number of tokens. Anything except a whole number is ignored.
type number = *json.Number

func amount(n number) (int64, bool) {
	if n == nil {
		return 0, false
	}
	v, err := n.Int64()
	return max(0, v), err == nil
}

// tokens returns a number, or 0 if there is none.
func tokens(n number) int64 {
	v, _ := amount(n)
	return v
}

// some reports whether any of the numbers is present.
func some(all ...number) bool {
	for _, n := range all {
		if _, ok := amount(n); ok {
			return true
		}
	}
	return false
}

// dollars returns a price. What is not a sensible one is 0.
func dollars(v *float64) float64 {
	if v == nil || !(*v > 0 && *v < 1e12) {
		return 0
	}
	return *v
}

// counts are tokens as claude and codex spell them.
type counts struct {
	Input   number `json:"input_tokens"`
	Output  number `json:"output_tokens"`
	Read    number `json:"cache_read_input_tokens"`     // not included in Input
	Written number `json:"cache_creation_input_tokens"` // not included in Input
	Cached  number `json:"cached_input_tokens"`         // included in Input
	Total   number `json:"total_tokens"`
	Tokens  number `json:"tokens"`
}

func (c counts) usage() (Usage, bool) {
	if some(c.Input, c.Output, c.Written) {
		return Usage{Input: max(0, tokens(c.Input)-tokens(c.Cached)), CacheRead: Add(tokens(c.Read), tokens(c.Cached)),
			CacheWrite: tokens(c.Written), Output: tokens(c.Output)}, true
	}
	if n, ok := amount(c.Total); ok {
		return Usage{Input: n}, true
	}
	n, ok := amount(c.Tokens)
	return Usage{Input: n}, ok
}

// modelCounts are tokens by model, as claude spells them.
type modelCounts map[string]struct {
	Input   number   `json:"inputTokens"`
	Output  number   `json:"outputTokens"`
	Read    number   `json:"cacheReadInputTokens"`
	Written number   `json:"cacheCreationInputTokens"`
	Cost    *float64 `json:"costUSD"`
}

func (m modelCounts) models() (all Models, ok bool) {
	for name, c := range m {
		if some(c.Input, c.Output, c.Written) {
			all.add(name, Usage{tokens(c.Input), tokens(c.Read), tokens(c.Written), tokens(c.Output), dollars(c.Cost)})
			ok = true
		}
	}
	return all, ok
}

// stats are tokens as gemini spells them. Both forms have a total per model.
type stats struct {
	geminiCounts
	Models map[string]struct {
		geminiCounts              // in a stream
		Tokens       geminiCounts `json:"tokens"` // in a single object
	} `json:"models"`
}

type geminiCounts struct {
	Total       number `json:"total_tokens"`
	Input       number `json:"input_tokens"`
	ObjectTotal number `json:"total"`
	Prompt      number `json:"prompt"`
	Cached      number `json:"cached"`
}

// usage returns the usage. Thoughts and the results of tools are only in the total.
func (c geminiCounts) usage() (Usage, bool) {
	total, input := c.Total, c.Input
	if total == nil {
		total, input = c.ObjectTotal, c.Prompt
	}
	n, ok := amount(total)
	if !ok {
		return Usage{}, false
	}
	cached := min(tokens(c.Cached), n)
	in := min(max(0, tokens(input)-cached), n-cached)
	return Usage{Input: in, CacheRead: cached, Output: n - cached - in}, true
}

func (s stats) models() (all Models, ok bool) {
	for name, m := range s.Models {
		u, known := m.usage()
		if !known {
			u, known = m.Tokens.usage()
		}
		if known {
			all.add(name, u)
			ok = true
		}
	}
	if !ok {
		var u Usage
		if u, ok = s.usage(); ok {
			all.add("", u)
		}
	}
	return all, ok
}
