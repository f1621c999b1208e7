package fakeagent

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]Plan{
		"ok":              {Items: []Item{{Scenario: OK}}},
		"quota@10m":       {Items: []Item{{Scenario: Quota, From: 10 * time.Minute}}},
		"quota@10m+30m":   {Items: []Item{{Scenario: Quota, From: 10 * time.Minute, For: 30 * time.Minute}}},
		"quota+1d":        {Items: []Item{{Scenario: Quota, For: 24 * time.Hour}}},
		"crash%10":        {Items: []Item{{Scenario: Crash, Percent: 10}}},
		"crash%10@5s+1h":  {Items: []Item{{Scenario: Crash, Percent: 10, From: 5 * time.Second, For: time.Hour}}},
		"quota-no-reset":  {Items: []Item{{Scenario: QuotaNoReset}}},
		"seed=7":          {Seed: 7, SeedSet: true},
		"auth, pace=0s":   {Items: []Item{{Scenario: Auth}}, Pace: -1},
		"ok,pace=200ms":   {Items: []Item{{Scenario: OK}}, Pace: 200 * time.Millisecond},
		"night/coder:ok":  {Items: []Item{{Scenario: OK, Agent: "night/coder"}}},
		"coder-1:hang@2s": {Items: []Item{{Scenario: Hang, Agent: "coder-1", From: 2 * time.Second}}},
		"a:crash,tool,seed=0": {
			Items: []Item{{Scenario: Crash, Agent: "a"}, {Scenario: Tool}}, SeedSet: true,
		},
	} {
		switch expected.Pace {
		case 0:
			expected.Pace = DefaultPace
		case -1:
			expected.Pace = 0
		}
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: %+v %v, expected %+v", text, got, err, expected)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		"":          "the plan is empty, expected [AGENT:]SCENARIO",
		"ok,":       `part 2 of the plan, "": it is empty`,
		"qouta":     `unknown scenario "qouta"; did you mean "quota"?`,
		"xyzzy":     `unknown scenario "xyzzy", expected one of ok, tool, quota,`,
		"crash%0":   `after "%" comes "0", expected a whole number from 1 to 100`,
		"crash%101": `after "%" comes "101"`,
		"crash%x":   `after "%" comes "x"`,
		"quota@ten": `after "@" comes "ten", expected a duration from 0s to 720h0m0s, such as ` +
			`90s or 10m`,
		"quota@-1m":                      `after "@" comes "-1m"`,
		"quota@":                         `after "@" comes ""`,
		"quota@31d":                      `after "@" comes "31d"`,
		"quota+0s":                       `after "+" comes a time of 0`,
		"quota+1m@2m":                    `"@" is twice or too late`,
		"quota@1m@2m":                    `"@" is twice or too late`,
		"quota@1m%5":                     `"%" is twice or too late`,
		":ok":                            `the agent is "", expected a name or path`,
		"a//b:ok":                        `the agent is "a//b"`,
		"a b:ok":                         `the agent is "a b"`,
		"a:b:ok":                         `unknown scenario "b:ok"`,
		"seed=-1":                        `the seed is "-1", expected a whole number from 0 up`,
		"seed=1,seed=2":                  `part 2 of the plan, "seed=2": seed is given twice`,
		"pace=1h":                        `after "pace=" comes "1h", expected a duration from 0s to 10m0s`,
		"pace=1s,pace=1s":                "pace is given twice",
		"speed=2":                        `unknown setting "speed", expected seed or pace`,
		strings.Repeat("x", 5e3):         "the plan has 5000 bytes, expected at most 4096",
		strings.Repeat("ok,", 99) + "ok": "the plan has 100 parts, expected at most 64",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%.40q: %v, expected %q", text, err, expected)
		}
	}
}

// A plan that is parsed is written as a plan that means the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"quota@10m+30m,crash%10,seed=3", "a/b:liar", "pace=1ms", "x", "ok@1d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(p.String())
		if len(p.Items) == 0 && p.String() == "" {
			return
		}
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q is written as %q: %+v %v, expected %+v", text, p, again, err, p)
		}
	})
}

func TestAt(t *testing.T) {
	t.Parallel()
	p, err := Parse("night/coder:crash@1m+1m,quota@10m+30m,money@1h")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		since    time.Duration
		agent    string
		expected Scenario
	}{
		{0, "night/coder", OK}, {time.Minute, "night/coder", Crash}, {time.Minute, "x/night/coder/coder-1", Crash},
		{time.Minute, "night/coder2", OK}, {time.Minute, "night/coders", OK}, {2 * time.Minute, "night/coder", OK},
		{10*time.Minute - 1, "", OK}, {10 * time.Minute, "", Quota}, {40*time.Minute - 1, "a", Quota},
		{40 * time.Minute, "a", OK}, {time.Hour, "a", Money}, {100 * time.Hour, "a", Money},
	} {
		if got := p.At(c.since, c.agent, 1).Scenario; got != c.expected {
			t.Errorf("%v of %q: %s, expected %s", c.since, c.agent, got, c.expected)
		}
	}
	q, _ := Parse("quota@1h")
	u, err := Parse("used-up@1h")
	if err != nil {
		t.Fatal(err)
	}
	if i := u.At(2*time.Hour, "", 1); i.Scenario != UsedUp || i.Until() != 6*time.Hour {
		t.Errorf("%v until %v", i, i.Until())
	}
	if i := q.At(2*time.Hour, "", 1); i.Scenario != Quota || i.Until() != 6*time.Hour {
		t.Errorf("a quota without a time: %+v, until %v", i, i.Until())
	}
	if got := q.At(6*time.Hour, "", 1).Scenario; got != OK {
		t.Errorf("after the reset: %s", got)
	}
}

// Of many calls, the share of the plan is drawn, and the same ones each time with a seed.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{1, 10, 50, 99} {
		p := Plan{Items: []Item{{Scenario: Crash, Percent: percent}}, Seed: 3}
		q, other := p, p
		other.Seed = 4
		hits, different := 0, 0
		const calls = 20_000
		for n := range uint64(calls) {
			got := p.At(0, "t/a", n).Scenario
			if got == Crash {
				hits++
			}
			if q.At(0, "t/a", n).Scenario != got {
				t.Fatalf("%d%%: call %d differs with the same seed", percent, n)
			}
			if other.At(0, "t/a", n).Scenario != got {
				different++
			}
		}
		if share := float64(hits) * 100 / calls; share < float64(percent)*0.8-0.2 || share > float64(percent)*1.2+0.2 {
			t.Errorf("%d%%: %.2f%% were drawn", percent, share)
		}
		if different == 0 {
			t.Errorf("%d%%: another seed draws the same", percent)
		}
	}
}
