package aide

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Report is what a command has said of itself, beside its exit code.
type Report struct {
	Tokens int64  // of input and output
	Known  bool   // it said how many
	Failed bool   // it said that it has failed, whatever its exit code
	Text   string // its answer, if it is not all that it printed
}

// ReadUsage reads what a command wrote to its usage file: a number of tokens,
// or an object such as a ReadOutput finds.
func ReadUsage(text []byte) Report {
	text = bytes.TrimSpace(text)
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return Report{Tokens: max(0, n), Known: true}
	}
	var total Report
	for line := range bytes.Lines(text) { // a line for each call
		r, ok := object(line)
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
			r, ok = Report{Tokens: max(0, n), Known: true}, true
		}
		if ok && r.Known {
			total.Tokens, total.Known = Add(total.Tokens, r.Tokens), true
		}
	}
	if !total.Known {
		if r, ok := object(text); ok {
			return Report{Tokens: r.Tokens, Known: r.Known}
		}
	}
	return total
}

// ReadOutput looks for the last JSON object in the output of a command that
// says what it has used: all of it, or one of its lines. What is no JSON says
// nothing.
func ReadOutput(out []byte) Report {
	if r, ok := object(out); ok {
		return r
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		if r, ok := object(lines[i]); ok && (r.Known || r.Failed) {
			return r
		}
	}
	return Report{}
}

// counts are tokens as the command lines of models spell them. Those that were
// read from a cache are not counted.
type counts struct {
	Input  *json.Number `json:"input_tokens"`
	Output *json.Number `json:"output_tokens"`
	Total  *json.Number `json:"total_tokens"`
	Tokens *json.Number `json:"tokens"`
}

func (c counts) sum() (n int64, ok bool) {
	for _, part := range []*json.Number{c.Input, c.Output} {
		if v, is := amount(part); is {
			n, ok = Add(n, v), true
		}
	}
	for _, all := range []*json.Number{c.Total, c.Tokens} {
		if v, is := amount(all); is && !ok {
			n, ok = v, true
		}
	}
	return n, ok
}

func amount(n *json.Number) (int64, bool) {
	if n == nil {
		return 0, false
	}
	v, err := n.Int64()
	return max(0, v), err == nil
}

func object(text []byte) (Report, bool) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return Report{}, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return Report{}, false
	}
	var r Report
	if json.Unmarshal(fields["is_error"], &r.Failed) != nil {
		r.Failed = false
	}
	if json.Unmarshal(fields["result"], &r.Text) != nil {
		r.Text = ""
	}
	var within counts
	if json.Unmarshal(fields["usage"], &within) == nil {
		r.Tokens, r.Known = within.sum()
	}
	if !r.Known {
		var direct counts
		if json.Unmarshal(text, &direct) == nil {
			r.Tokens, r.Known = direct.sum()
		}
	}
	r.Text = strings.TrimSpace(r.Text)
	return r, true
}
