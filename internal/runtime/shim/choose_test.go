package shim

import "testing"

// Agents that start at once get two shims; others fill one after the other.
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		all  []host
		most int
		want int // index; -1 means a new one
	}{
		"none":                       {nil, 8, -1},
		"room":                       {[]host{{slots: 8}, {slots: 7}, {slots: 1}}, 8, 1},
		"full":                       {[]host{{slots: 8}, {slots: 9}}, 8, -1},
		"one start":                  {[]host{{slots: 5, starts: 1}}, 8, 0},
		"starts, less than half":     {[]host{{slots: 3, starts: 3}}, 8, 0},
		"starts, half":               {[]host{{slots: 4, starts: 2}}, 8, -1},
		"the one with fewer starts":  {[]host{{slots: 6, starts: 3}, {slots: 2, starts: 2}}, 8, 1},
		"the first of equals":        {[]host{{slots: 3, starts: 2}, {slots: 2, starts: 2}}, 8, 0},
		"both busy":                  {[]host{{slots: 6, starts: 3}, {slots: 4, starts: 2}}, 8, 1},
		"each its own":               {[]host{{slots: 1, starts: 1}}, 1, -1},
		"a program is never divided": {[]host{{slots: 1000, starts: 1000}}, 1<<63 - 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*host
			for i := range c.all {
				all = append(all, &c.all[i])
			}
			got := -1
			for i, h := range all {
				if h == choose(all, c.most) {
					got = i
				}
			}
			if got != c.want {
				t.Errorf("shim %d, want %d", got, c.want)
			}
		})
	}
}
