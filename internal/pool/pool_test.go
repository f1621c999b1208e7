package pool

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDemand(t *testing.T) {
	p := &spec.Pool{Min: 1, Max: 5}
	broken := errors.New("no queue")
	var d Demand
	for _, tt := range []struct {
		does    string
		n       int
		err     error
		pool    *spec.Pool
		want    int
		problem bool
	}{
		{"nothing is known, and the first check fails", 0, broken, p, 1, true},
		{"a good answer", 3, nil, p, 3, false},
		{"a bad one leaves the last good one", 0, broken, p, 3, true},
		{"and so does the next", 9, broken, p, 3, true},
		{"too many", 9, nil, p, 5, false},
		{"and max is raised before the next check", 0, broken, &spec.Pool{Min: 1, Max: 7}, 7, true},
		{"and lowered", 0, broken, &spec.Pool{Max: 2}, 2, true},
		{"too few", 0, nil, p, 1, false},
		{"less than nothing", -3, nil, p, 1, false},
		{"a minimum above the last good answer", 0, broken, &spec.Pool{Min: 4, Max: 7}, 4, true},
		{"no limit has one", math.MaxInt32, nil, &spec.Pool{Max: spec.UnlimitedPool}, spec.MaxInstances, false},
		{"a pool that is shut", 3, nil, &spec.Pool{}, 0, false},
	} {
		d = d.Answered(tt.n, tt.err)
		if got := d.Size(tt.pool); got != tt.want || (d.Problem != nil) != tt.problem {
			t.Errorf("%s: size %d, problem %v, want %d, %v", tt.does, got, d.Problem, tt.want, tt.problem)
		}
	}
}

// member parses "NAME" with flags: "!" does not live, "?5s" drains with 5 s left, "+" has finished,
// "h" held, "x" leaving, "a" has ended and was asked for again.
func member(text string) Member {
	name, marks, _ := strings.Cut(text, ":")
	m := Member{Name: name, Lives: !strings.Contains(marks, "!"), Held: strings.Contains(marks, "h"), Leaving: strings.Contains(marks, "x"), Again: strings.Contains(marks, "a")}
	if _, left, ok := strings.Cut(marks, "?"); ok {
		d, err := time.ParseDuration(strings.Trim(left, "+!hx"))
		if err != nil {
			panic(err)
		}
		m.Drain = &Drain{Finished: strings.Contains(marks, "+"), Until: noon.Add(d)}
	}
	return m
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		does, wanted, members, want string
		next                        time.Duration
	}{
		{does: "nothing to do"},
		{does: "as it should be", wanted: "a b", members: "a b"},
		{does: "begins", wanted: "a b", want: "add a: wanted, add b: wanted"},
		{does: "grows", wanted: "a b c", members: "a", want: "add b: wanted, add c: wanted"},
		{does: "shrinks, the highest first", wanted: "a", members: "a b c", want: "drain c: no longer wanted, drain b: no longer wanted"},
		{does: "waits for who is asked", wanted: "a", members: "a b:?5s c:?3s", next: 3 * time.Second},
		{does: "has finished", wanted: "a", members: "a b:?5s+", want: "remove b: has finished"},
		{does: "takes too long", wanted: "a", members: "a b:?0s c:?1s", want: "remove b: did not finish in time", next: time.Second},
		{does: "took too long while no daemon ran", wanted: "a", members: "a b:?-60m", want: "remove b: did not finish in time"},
		{does: "has ended", wanted: "a", members: "a b:?5s!", want: "remove b: has ended"},
		{does: "is wanted again", wanted: "a b", members: "a b:?5s c:?5s", want: "cancel drain b: wanted again", next: 5 * time.Second},
		{does: "is wanted again when it has finished", wanted: "a b", members: "a b:?5s+", want: "remove b: has finished"},
		{does: "is wanted again when it has ended", wanted: "a b", members: "a b:?5s!", want: "remove b: has ended"},
		{does: "is wanted again too late", wanted: "a b", members: "a b:?0s", want: "remove b: did not finish in time"},
		{does: "leaves", wanted: "a", members: "a b:x c:?1s+x"},
		{does: "is wanted while it leaves", wanted: "a b", members: "a b:x"},
		{does: "nothing of it is left to finish", wanted: "a", members: "a:! b:!", want: "remove b: has ended"},
		{does: "was asked by hand", wanted: "a", members: "a:h b:h"},
		{does: "was asked by hand and has ended", wanted: "a", members: "a:h! b:h!", want: "remove b: has ended"},
		{does: "has ended for good and is asked for again", wanted: "a b", members: "a b:!a", want: "remove b: has ended"},
		{does: "has ended for good", wanted: "a b", members: "a b:!"},
		{does: "renamed", wanted: "ada bob", members: "w-1 w-2", want: "add ada: wanted, add bob: wanted, drain w-2: no longer wanted, drain w-1: no longer wanted"},
		{does: "shut", members: "a b:!", want: "remove b: has ended, drain a: no longer wanted"},
		{does: "all at once", wanted: "a b c", members: "a:! b:?9s d:?9s e f:?1s+ g:x",
			want: "cancel drain b: wanted again, add c: wanted, remove f: has finished, drain e: no longer wanted", next: 9 * time.Second},
	} {
		var members []Member
		for _, text := range strings.Fields(tt.members) {
			members = append(members, member(text))
		}
		steps, next := Plan(noon, strings.Fields(tt.wanted), members)
		var got []string
		for _, s := range steps {
			got = append(got, fmt.Sprintf("%v %s: %s", s.Verb, s.Name, s.Why))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.does, text, tt.want)
		}
		wantNext := noon.Add(tt.next)
		if tt.next == 0 {
			wantNext = time.Time{}
		}
		if next != wantNext {
			t.Errorf("%s: plans again at %v, want %v", tt.does, next, wantNext)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	for text, want := range map[string]int{
		"3": 3, " 12\n": 12, "\r\n0\r\n": 0, "-4\n": -4, "+4": 4, "007": 7,
		"99999999999999999999999": math.MaxInt32, "-99999999999999999999999": math.MinInt32, "9223372036854775807": math.MaxInt32,
	} {
		if got, err := parseAnswer([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "it has printed nothing, expected an integer", " \n": "it has printed nothing, expected an integer",
		"3 workers": `it has printed "3 workers", expected an integer`, "3\n4\n": `it has printed "3\n4", expected an integer`,
		"3.0": `it has printed "3.0", expected an integer`, "1e3": `it has printed "1e3", expected an integer`,
		"0x3": `it has printed "0x3", expected an integer`, "1_000": `it has printed "1_000", expected an integer`, "\x1b[1m3": `it has printed "\x1b[1m3", expected an integer`,
		"99999999999999999999A": `it has printed "99999999999999999999A", expected an integer`, "+-3": `it has printed "+-3", expected an integer`,
		strings.Repeat("9x", 5000): `it has printed "` + strings.Repeat("9x", 30) + `"..., expected an integer`,
	} {
		if n, err := parseAnswer([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.20q: %d, %v, want %s", text, n, err, want)
		}
	}
}

// parseAnswer does not panic, and accepts only numbers as a person would read them.
func FuzzParseAnswer(f *testing.F) {
	for _, s := range []string{"3", " -1 ", "9999999999999999999999", "x", "", "3 4", "\xff", "１"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parseAnswer(data)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b\x00") || len(err.Error()) > 400 {
				t.Errorf("%q: not a short printable line: %q", data, err)
			}
			return
		}
		digits := strings.TrimLeft(strings.TrimSpace(string(data)), "+-")
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			t.Errorf("%q was taken for %d", data, n)
		}
		again, err := parseAnswer(fmt.Append(nil, n))
		if err != nil || again != n {
			t.Errorf("%d read again is %d, %v", n, again, err)
		}
	})
}

func names(members []Member) []string {
	var all []string
	for _, m := range members {
		all = append(all, m.Name)
	}
	return slices.Clip(all)
}

func (v Verb) String() string { return [...]string{"add", "drain", "cancel drain", "remove"}[v] }
