package deadline

import (
	"cmp"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/runtime"
)

var errDamaged = errors.New("damaged")

// A state is a table of readings and times, and what follows from them.
func TestState(t *testing.T) {
	t.Parallel()
	type step struct {
		now      Instant
		deadline Deadline
		err      error
		next     Instant
		over     bool // told now
		fenced   bool
		end      Instant // of the deadline that is over; now if 0
		says     string
	}
	at := func(i Instant) Deadline { return Deadline{until: i} }
	for name, steps := range map[string][]step{
		"no file": {{now: 5, err: fs.ErrNotExist}, {now: 9, err: fs.ErrNotExist}},
		"a file comes": {
			{now: 5, err: fs.ErrNotExist},
			{now: 6, deadline: at(10), next: 10},
			{now: 10, deadline: at(10), over: true, fenced: true},
		},
		"moved": {
			{now: 5, deadline: at(10), next: 10},
			{now: 10, deadline: at(12), next: 12},
			{now: 12, deadline: at(12), over: true, fenced: true},
			{now: 13, deadline: at(12), fenced: true}, // once
			{now: 14, deadline: at(20), next: 20},
			{now: 20, deadline: at(20), over: true, fenced: true},
		},
		"over from the beginning": {{now: 5, deadline: at(4), over: true, fenced: true}},
		"earlier boot":            {{now: 5, over: true, fenced: true}, {now: 6, deadline: at(9), next: 9}},
		"expired": {
			{now: 5, deadline: at(10), next: 10},
			{now: 6, over: true, fenced: true},
			{now: 7, deadline: at(9), next: 9}, // earlier than the one before
			{now: 9, deadline: at(9), over: true, fenced: true},
		},
		"paused, and expired meanwhile": {
			{now: 5, deadline: at(10), next: 10},
			{now: 20, over: true, fenced: true, end: 10},
		},
		"the node has left": {
			{now: 5, deadline: at(10), next: 10},
			{now: 6, deadline: Deadline{left: "n2"}, over: true, fenced: true, says: "node n2 has left the fleet"},
			{now: 7, deadline: Deadline{left: "n2"}, fenced: true},
			{now: 8, deadline: at(12), next: 12},
			{now: 12, deadline: at(12), over: true, fenced: true, says: "lease of the node has ended"},
		},
		"the node has left after its lease had ended": {
			{now: 10, deadline: at(10), over: true, fenced: true, says: "lease of the node has ended"},
			{now: 11, deadline: Deadline{left: "n2"}, fenced: true},
		},
		"lifted": {
			{now: 5, deadline: at(10), next: 10},
			{now: 10, deadline: Deadline{none: true}},
			{now: 99, deadline: Deadline{none: true}},
		},
		"damaged at the first": {
			{now: 5, err: errDamaged, over: true, fenced: true},
			{now: 6, err: errDamaged, fenced: true},
			{now: 7, deadline: at(9), next: 9},
		},
		"damaged later": {
			{now: 5, deadline: at(10), next: 10},
			{now: 6, err: errDamaged, next: 10},
			{now: 10, err: errDamaged, over: true, fenced: true},
			{now: 11, deadline: at(14), next: 14},
		},
		"removed later": {
			{now: 5, deadline: at(10), next: 10},
			{now: 10, err: fs.ErrNotExist, over: true, fenced: true},
		},
		"removed without a deadline": {{now: 5, deadline: Deadline{none: true}}, {now: 10, err: fs.ErrNotExist}},
	} {
		var s state
		for i, c := range steps {
			s.read(c.deadline, c.err)
			next, over := s.next(c.now)
			fenced := s.check(c.now)
			if next != c.next || (over != nil) != c.over || (fenced != nil) != c.fenced {
				t.Errorf("%s, step %d: %d, %v, %v; want %+v", name, i, next, over, fenced, c)
			}
			if end := s.end(c.now); over != nil && c.end != 0 && end != c.end || end > c.now {
				t.Errorf("%s, step %d: over since %d, want %d", name, i, end, cmp.Or(c.end, c.now))
			}
			if over != nil && !errors.Is(over, runtime.ErrDeadline) || fenced != nil && !errors.Is(fenced, runtime.ErrFenced) {
				t.Errorf("%s, step %d: %v, %v", name, i, over, fenced)
			}
			if c.says != "" && !strings.Contains(over.Error(), c.says) {
				t.Errorf("%s, step %d: %v, want %s", name, i, over, c.says)
			}
			if c.err == errDamaged && over != nil && !errors.Is(over, errDamaged) {
				t.Errorf("%s, step %d: %v", name, i, over)
			}
		}
	}
}

// Whatever is read, and when: a deadline that has come is told exactly once until another one is read, never before
// it has come, and starts are refused exactly while it is over.
func TestStateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s state
		s.read(Deadline{}, fs.ErrNotExist)
		now, known, told := Instant(1), Deadline{none: true}, false
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) { now += Instant(rapid.IntRange(1, 20).Draw(t, "passes")) },
			"later": func(t *rapid.T) {
				known, told = Deadline{until: max(known.until, now) + Instant(rapid.IntRange(1, 20).Draw(t, "ahead"))}, false
				s.read(known, nil)
			},
			"same": func(t *rapid.T) {
				if !s.seen {
					t.Skip("nothing to read")
				}
				s.read(known, nil)
			},
			"lifted": func(*rapid.T) {
				known, told = Deadline{none: true}, false
				s.read(known, nil)
			},
			"damaged": func(*rapid.T) {
				if !s.seen && known.none {
					known = Deadline{}
				}
				s.read(Deadline{}, errDamaged)
			},
			"": func(t *rapid.T) {
				next, over := s.next(now)
				due := !known.none && now >= known.until
				if (over != nil) != (due && !told) {
					t.Fatalf("at %d, of %+v, told before: %v, told now: %v", now, known, told, over)
				}
				told = told || due
				if want := known.until; !known.none && !due && next != want || (known.none || due) && next != 0 {
					t.Fatalf("at %d, of %+v: next at %d", now, known, next)
				}
				if err := s.check(now); (err != nil) != due {
					t.Fatalf("at %d, of %+v: %v", now, known, err)
				}
			},
		})
	})
}
