package fakeagent

import (
	"strings"
	"testing"
)

// Any arguments are parsed or refused.
func FuzzArguments(f *testing.F) {
	f.Add("exec\nresume\n--last\n-\n--json")
	f.Add("-p\n--resume\n--output-format=stream-json\n--\nx")
	f.Add("--\n-\n\n=\n--=")
	f.Fuzz(func(t *testing.T, text string) {
		for _, cli := range headless() {
			args := strings.Split(text, "\n")
			q, err := parse(cli, args)
			if err == nil && len(strings.Join(q.words, "\n")) > len(text) {
				t.Errorf("%s %q: the prompt is %q", cli, args, q.words)
			}
		}
	})
}

// Any value of the variable is read or refused, and what is read is written as the same.
func FuzzSetting(f *testing.F) {
	f.Add(`{"plan":"ok","start":"2026-11-23T01:00:00Z","dir":"/"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSetting(text)
		if err != nil || len(s.Plan.Items) == 0 {
			return
		}
		again, err := ParseSetting(s.Env())
		if err != nil || again.Plan.String() != s.Plan.String() || !again.Start.Equal(s.Start) || again.Dir != s.Dir {
			t.Errorf("%q is written as %q: %v", text, s.Env(), err)
		}
	})
}
