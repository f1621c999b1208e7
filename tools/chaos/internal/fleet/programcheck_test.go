package fleet

import (
	"strings"
	"testing"
)

// The check of an agent of the program finds what it is there for.
func TestCheckProgram(t *testing.T) {
	t.Parallel()
	good := func() counter {
		return counter{
			name:    "Count/p0",
			found:   []agentLife{{incarnation: 1, pid: 10}, {incarnation: 2, pid: 20}},
			stopped: true,
			steps:   []byte("start 0 0 \"\" 0\ntry 1\nack 1\ntry 2\nstart 2 4 \"2:4\" 0\ntry 3\nack 3\n"),
			output:  []byte("start 1\nack 1\nstart 2\nack 3\nack 4\nstop 2\n"),
			lives: map[uint64]*life{
				1: {started: 1, ended: 1, lost: true}, 2: {started: 1, ended: 1, stopping: true},
			},
			hits: map[int]bool{1: true}, kills: 1,
		}
	}
	for want, change := range map[string]func(*counter){
		"": func(*counter) {},
		"acknowledged was 1, and 2 tried": func(c *counter) {
			c.steps = []byte(strings.Replace(string(c.steps), "start 2 4 \"2:4\"", "start 0 0 \"\"", 1))
		},
		"it never ran":                    func(c *counter) { c.found = nil },
		"incarnation 1 of 2 was lost: fa": func(c *counter) { c.lives[1].lost = false },
		"incarnation 2 of 2 was lost: tr": func(c *counter) { c.lives[2].lost = true },
		"incarnation 2 of 2 is not start": func(c *counter) { c.lives[2].ended = 2 },
		"incarnation 1 of 2 is not start": func(c *counter) { c.lives[1].started = 0 },
		"incarnation 2 of 2 is not in th": func(c *counter) { c.lives[3] = c.lives[2]; delete(c.lives, 2) },
		"life 1 of 2 was killed: false":   func(c *counter) { c.hits = nil },
		"life 2 of 2 was killed: true":    func(c *counter) { c.hits[2] = true },
		"expected one for each of 1 to 1": func(c *counter) {
			c.lives[3] = c.lives[2]
			c.lives[2] = c.lives[1]
		},
		`line 2 of its log is "error 1`: func(c *counter) { c.output = []byte("start 1\nerror 1: no\n") },
		`line 3 of its log is "ack 1`:   func(c *counter) { c.output = []byte("start 1\nack 1\nack 1\n") },
		`line 3 of its log is "start 1`: func(c *counter) { c.output = []byte("start 1\nack 1\nstart 1\n") },
		`line 3 of its log is "ack 3`: func(c *counter) {
			c.output = []byte("start 1\nack 1\nack 3\nack 5\n")
		},
		`line 2 of its log is "stop 1`: func(c *counter) { c.output = []byte("start 1\nstop 1\nack 1\n") },
		`lacks "ack 3"`: func(c *counter) {
			c.output = []byte("start 1\nack 1\nstart 2\nstop 2\n")
		},
		`lacks "start 1"`: func(c *counter) {
			c.output = []byte("ack 1\nstart 2\nack 3\nstop 2\n")
		},
		"ends with stop 0 of life 2": func(c *counter) {
			c.output = []byte("start 1\nack 1\nstart 2\nack 3\n")
		},
		"stop 2 of life 2; in its journal: fa": func(c *counter) { c.stopped = false },
		"ends with stop 1 of life 2": func(c *counter) {
			c.output = []byte("start 1\nack 1\nstart 2\nack 3\nstop 1\n")
		},
	} {
		c := good()
		change(&c)
		err := c.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
