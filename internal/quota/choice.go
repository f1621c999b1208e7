package quota

import (
	"slices"
	"time"
)

// choose returns which of its accounts an agent starts with now: the one that it used last if that serves, or else the
// first that does. If none serves, ok is false, i is the one that it waits for, and again is when to ask again.
func choose(path string, accounts []*Pool, last string, now time.Time) (i int, again time.Time, ok bool) {
	i = slices.IndexFunc(accounts, func(p *Pool) bool { return p.Name == last && p.admits(path, now) })
	if i < 0 {
		i = slices.IndexFunc(accounts, func(p *Pool) bool { return p.admits(path, now) })
	}
	if i >= 0 {
		return i, time.Time{}, true
	}
	for n, p := range accounts {
		if at := p.asksAgain(now); n == 0 || at.Before(again) {
			i, again = n, at
		}
	}
	return i, again, false
}
