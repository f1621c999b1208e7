package fleet

import (
	"strings"
	"testing"
)

// An agent that was killed is restarted once, and no other one.
func TestCheckRestarts(t *testing.T) {
	t.Parallel()
	lives := map[uint64]*life{1: {started: 1, ended: 1}, 2: {started: 1, ended: 1}}
	two := []agentLife{{incarnation: 1, pid: 10}, {incarnation: 2, pid: 20}}
	for _, c := range []struct {
		name  string
		found []agentLife
		hits  map[int]bool
		err   string
	}{
		{"restarted once", two, map[int]bool{10: true}, ""},
		{"killed before it wrote its journal", two[1:], map[int]bool{9: true}, ""},
		{"restarted by itself", two, nil, "incarnation 1 of 2 was killed: false"},
		{"not restarted", two, map[int]bool{10: true, 20: true}, "incarnation 2 of 2 was killed: true"},
		{"one life too many", two[1:], nil, "was killed 0 times, and has 2 lives"},
		{"one life too few", two, map[int]bool{10: true, 15: true}, "was killed 2 times, and has 2 lives"},
	} {
		err := checkRestarts("a", c.found, lives, c.hits)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	lives[2].unstarted = true // with a process that was killed, or before it had one
	for _, hits := range []map[int]bool{{9: true}, nil} {
		if err := checkRestarts("a", two[1:], lives, hits); err != nil {
			t.Error(err)
		}
	}
}
