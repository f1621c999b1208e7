package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/answer/candidate"
)

// Extract finds the JSON value in the text of a model: the whole text, or the only value in it,
// which is a fenced code block or an object or array in the prose. It is an error if there is
// none, more than one or a broken one, as choosing would be a guess. Errors give the position
// (line:column). Thoughts at the start (<think>...</think>) and code blocks in other languages are
// ignored.
func Extract(text string) (json.RawMessage, error) {
	var found []candidate.Value
	for p := range candidate.Parts(text) {
		if !p.JSON && strings.HasPrefix(p.Language, "json") {
			return nil, fmt.Errorf("the code block at %s is not valid JSON: %w", place(text, p.Start),
				invalid(text[p.Start:p.End]))
		}
		for v := range p.Values() {
			if v.State != candidate.Valid {
				rest := text[v.Start:p.End]
				var raw json.RawMessage
				return nil, fmt.Errorf("the value at %s, which starts with %.40q, is not valid JSON: %w",
					place(text, v.Start), cut(rest, 40), json.NewDecoder(strings.NewReader(rest)).Decode(&raw))
			}
			if found = append(found, v); len(found) > 1 {
				return nil, fmt.Errorf("it contains more than one JSON value: %s and %s", describe(text, found[0]),
					describe(text, found[1]))
			}
		}
	}
	switch {
	case len(found) == 1:
		return json.RawMessage(found[0].Text()), nil
	case strings.TrimSpace(text) == "":
		return nil, errors.New("it is empty")
	}
	return nil, errors.New("it contains no JSON value")
}

// invalid returns the error in a text that is not a JSON value.
func invalid(s string) error {
	var raw json.RawMessage
	return json.Unmarshal([]byte(s), &raw)
}

// place returns the position of a byte as line:column.
func place(text string, at int) string {
	line, column := candidate.Position(text, at)
	return fmt.Sprintf("%d:%d", line, column)
}

func describe(text string, v candidate.Value) string {
	return fmt.Sprintf("%q at %s", cut(v.Text(), 40), place(text, v.Start))
}
