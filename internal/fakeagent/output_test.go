package fakeagent

import "testing"

// The type comes first, also if there is nothing else.
func TestEncode(t *testing.T) {
	t.Parallel()
	for expected, v := range map[string]object{
		`{"type":"turn.started"}`:          {"type": "turn.started"},
		`{"type":"x","a":"<b>","c":[1,2]}`: {"a": "<b>", "type": "x", "c": []int{1, 2}},
		`{"a":1}`:                          {"a": 1},
		`{}`:                               {},
	} {
		if got := encode(v); got != expected+"\n" {
			t.Errorf("%s, expected %s", got, expected)
		}
	}
}
