package agentcli

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// printed has the relevant fields of the objects of all command lines.
type printed struct {
	Type string `json:"type"`

	// claude
	Subtype        string      `json:"subtype"`
	IsError        bool        `json:"is_error"`
	Result         string      `json:"result"`
	Errors         []string    `json:"errors"`
	TerminalReason string      `json:"terminal_reason"`
	Parent         string      `json:"parent_tool_use_id"` // set in messages of subagents
	Usage          counts      `json:"usage"`              // codex, too
	ModelUsage     modelCounts `json:"modelUsage"`         // by model, including subagents
	Message        struct {
		ID      string `json:"id"`
		Usage   counts `json:"usage"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"message"`

	// codex
	Item struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"item"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`

	// gemini
	Response string `json:"response"`
	Status   string `json:"status"`
	Role     string `json:"role"`
	Content  string `json:"content"`
	Delta    bool   `json:"delta"`
	Stats    stats  `json:"stats"`

	// opencode
	Session string `json:"sessionID"`
	Part    struct {
		Reason string `json:"reason"`
		Text   string `json:"text"`
		Tokens step   `json:"tokens"`
	} `json:"part"`

	counts // of other commands
}

// number is a number of tokens. Anything except a whole number is ignored.
type number = *json.Number

func amount(n number) (int64, bool) {
	if n == nil {
		return 0, false
	}
	v, err := n.Int64()
	return max(0, v), err == nil
}

// total adds the numbers that are present.
func total(all ...number) (sum int64, ok bool) {
	for _, n := range all {
		if v, is := amount(n); is {
			sum, ok = Add(sum, v), true
		}
	}
	return sum, ok
}

// without returns n minus a part of it.
func without(n int64, part number) int64 {
	p, _ := amount(part)
	return max(0, n-p)
}

// counts are tokens as claude and codex spell them.
type counts struct {
	Input   number `json:"input_tokens"`
	Output  number `json:"output_tokens"`
	Written number `json:"cache_creation_input_tokens"` // not included in Input
	Cached  number `json:"cached_input_tokens"`         // included in Input
	Total   number `json:"total_tokens"`
	Tokens  number `json:"tokens"`
}

func (c counts) sum() (int64, bool) {
	in, some := total(c.Input)
	if n, ok := total(c.Output, c.Written); ok || some {
		return Add(without(in, c.Cached), n), true
	}
	if n, ok := amount(c.Total); ok {
		return n, true
	}
	return amount(c.Tokens)
}

// modelCounts are tokens by model, as claude spells them.
type modelCounts map[string]struct {
	Input   number `json:"inputTokens"`
	Output  number `json:"outputTokens"`
	Written number `json:"cacheCreationInputTokens"`
}

func (m modelCounts) sum() (sum int64, ok bool) {
	for _, c := range m {
		if n, is := total(c.Input, c.Output, c.Written); is {
			sum, ok = Add(sum, n), true
		}
	}
	return sum, ok
}

// stats are tokens as gemini spells them: a total in a stream, otherwise by model.
type stats struct {
	Total  number `json:"total_tokens"`
	Cached number `json:"cached"`
	Models map[string]struct {
		Tokens struct {
			Total  number `json:"total"`
			Cached number `json:"cached"`
		} `json:"tokens"`
	} `json:"models"`
}

func (s stats) sum() (sum int64, ok bool) {
	if n, ok := amount(s.Total); ok {
		return without(n, s.Cached), true
	}
	for _, m := range s.Models {
		if n, is := amount(m.Tokens.Total); is {
			sum, ok = Add(sum, without(n, m.Tokens.Cached)), true
		}
	}
	return sum, ok
}

// step are tokens of a step, as opencode spells them.
type step struct {
	Input     number `json:"input"`
	Output    number `json:"output"`
	Reasoning number `json:"reasoning"`
	Cache     struct {
		Write number `json:"write"`
	} `json:"cache"`
}

func (s step) sum() (int64, bool) { return total(s.Input, s.Output, s.Reasoning, s.Cache.Write) }

// Read parses the whole output of a command.
func Read(out []byte) Report {
	var s Stream
	s.Write(out)
	s.Close()
	return s.Report()
}

// ReadUsage parses the usage file of a command. The file has a line for each call, with a number of
// tokens or an object with a usage, or it is one such object.
func ReadUsage(text []byte) Report {
	var sum Report
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		n, err := strconv.ParseInt(string(line), 10, 64)
		known := err == nil
		if !known {
			r := Read(line)
			n, known = r.Tokens, r.Known
		}
		if known {
			sum.Tokens, sum.Known = Add(sum.Tokens, n), true
		}
	}
	if !sum.Known {
		if r := Read(text); r.Known {
			sum.Tokens, sum.Known = r.Tokens, true
		}
	}
	return sum
}
