package agentcli

import (
	"strings"
	"testing"
)

// The turns of recorded runs are the answers that their server has given, wherever they can be counted.
func TestTurns(t *testing.T) {
	for name, expected := range map[string]int64{
		"claude/tool": 2, "claude-oauth/tool": 2, "codex/tool": 2, "gemini/tool": 2, "opencode/tool": 2, "copilot/tool": 2,
	} {
		r := recordings(t)[name]
		if r == nil {
			t.Errorf("%s: no such recording", name)
			continue
		}
		if n := r.end().Counts().Turns; n == nil || *n != expected {
			t.Errorf("%s: %v turns, expected %d", name, n, expected)
		}
	}
}

// A message that is reported several times is a turn, and where only the end tells, its number counts.
func TestTurnsOfOutput(t *testing.T) {
	message := func(id string) string {
		return `{"type":"assistant","message":{"id":"` + id + `","usage":{"input_tokens":1,"output_tokens":1}}}`
	}
	const end = `{"type":"result","subtype":"success","num_turns":7,"usage":{"input_tokens":9}}`
	none := int64(-1)
	for _, tt := range []struct {
		cli      CLI
		lines    []string
		expected int64
	}{
		{Claude, nil, none},
		{Claude, []string{message("a"), message("a"), message("b")}, 2},
		{Claude, []string{message(""), message("")}, 2},
		{Claude, []string{message("a"), end}, 1},
		{Claude, []string{end}, 7},
		{Claude, []string{strings.Replace(end, "7", "-7", 1)}, none},
		{Claude, []string{`{"type":"result","usage":{"input_tokens":0,"output_tokens":0}}`}, 0},
		{Codex, []string{`{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":5}}`}, none},
	} {
		r := End{CLI: tt.cli, Output: Read(tt.cli, []byte(strings.Join(tt.lines, "\n")+"\n"))}.Counts()
		if got := r.Turns; (got == nil) != (tt.expected == none) || got != nil && *got != tt.expected {
			t.Errorf("%s: %v, expected %d", tt.lines, got, tt.expected)
		}
	}
}
