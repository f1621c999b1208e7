package output

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/token"
)

// began is the time at which the logs of newFiles begin.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// newFiles returns nodes on which t/a and t/b have written a line each second: a has moved from n2 to n1, back to n2
// and then to n3, while b was on n1.
func newFiles(t *testing.T) []*machine {
	all := []runtime.Runtime{files{dir: t.TempDir()}, files{dir: t.TempDir()}, files{dir: t.TempDir()}}
	synctest.Test(t, func(t *testing.T) {
		writers := make(map[string]*logfile.Writer)
		for i, step := range strings.Fields("2a 2a 1b 1a 1b 1a 2a 1b 3a 3a") {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second)))
			file, err := all[step[0]-'1'].Log("t/" + step[1:])
			if err != nil {
				t.Fatal(err)
			}
			if writers[file] == nil {
				writers[file] = logfile.NewWriter(file)
			}
			writers[file].Append(fmt.Appendf(nil, "%s%d\n", step[1:], i))
		}
	})
	return newMachines(t, all...)
}

// everything is what the agents of newFiles have written.
var everything = strings.Fields("a0 a1 b2 a3 b4 a5 a6 b7 a8 a9")

var allPlaces = []string{"n1", "n2", "n3"}

// collect returns lines of output as text; a follower ends when it is up to date.
func (c *controller) collect(t testing.TB, q Query) (texts []string, position map[string]string) {
	t.Helper()
	position = make(map[string]string)
	for l, err := range c.Logs(ctxOf(t), q) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Live {
			break
		}
		if l.Position != "" {
			position[l.Path] = l.Position
		}
		texts = append(texts, l.Line)
	}
	return texts, position
}

// The logs of an agent on several nodes are one log, wherever it is read.
func TestLogsOfNodes(t *testing.T) {
	t.Parallel()
	machines := newFiles(t)
	for _, here := range machines {
		c := lead(t, here, machines, allPlaces, "t/a", "t/b")
		for _, test := range []struct {
			q    Query
			want string
		}{
			{Query{Lines: -1}, "a0 a1 b2 a3 b4 a5 a6 b7 a8 a9"},
			{Query{Lines: 3}, "b2 b4 a6 b7 a8 a9"},
			{Query{Lines: 0}, ""},
			{Query{Lines: 4, Paths: []string{"t/a"}}, "a5 a6 a8 a9"},
			{Query{Lines: 100, Paths: []string{"t/a"}}, "a0 a1 a3 a5 a6 a8 a9"},
			{Query{Lines: -1, Since: began.Add(4500 * time.Millisecond)}, "a5 a6 b7 a8 a9"},
			{Query{Lines: 2, Since: began.Add(4500 * time.Millisecond)}, "b7 a8 a9"},
			{Query{Lines: -1, Grep: "[0356]$"}, "a0 a3 a5 a6"},
			{Query{Lines: 2, Grep: "[0356]$"}, "a5 a6"},
			{Query{Lines: -1, Since: began.Add(time.Second), Grep: "[0356]$"}, "a3 a5 a6"},
		} {
			for _, follow := range []bool{false, true} {
				test.q.Follow = follow
				if got, _ := c.collect(t, test.q); strings.Join(got, " ") != test.want {
					t.Errorf("%s: %+v: %q, want %s", here.name, test.q, got, test.want)
				}
			}
		}
	}
}

// A follower that was interrupted after any line goes on after it, also at another controller.
func TestResumeAtAnotherController(t *testing.T) {
	t.Parallel()
	machines := newFiles(t)
	var all []*controller
	for _, here := range machines {
		all = append(all, lead(t, here, machines, allPlaces, "t/a", "t/b"))
	}
	q := Query{Lines: -1, Follow: true}
	for n := range everything {
		first := all[n%len(all)]
		after := make(map[string]string)
		i := 0
		for l, err := range first.Logs(ctxOf(t), q) {
			if err != nil {
				t.Fatal(err)
			}
			if i == n || l.Live {
				break
			}
			i++
			after[l.Path] = l.Position
		}
		for _, second := range all {
			resumed := q
			resumed.After = after
			if got, _ := second.collect(t, resumed); !slices.Equal(got, everything[n:]) {
				t.Errorf("%d lines at %s, then at %s with %v: %q, want %q", n, first.here.name, second.here.name, after,
					got, everything[n:])
			}
		}
	}
	for n := range 5 { // lines that were left out do not come later
		_, after := all[0].collect(t, Query{Lines: n, Follow: true, Paths: []string{"t/a"}})
		if n == 0 {
			continue // there is no position: the reader begins again
		}
		got, _ := all[1].collect(t, Query{Lines: 200, Follow: true, Paths: []string{"t/a"}, After: after})
		if got != nil {
			t.Errorf("after the last %d lines: %q", n, got)
		}
	}
}

// Without a fleet, positions are marks; in one, they name the node.
func TestPositions(t *testing.T) {
	t.Parallel()
	machines := newFiles(t)
	c := lead(t, machines[0], machines[:1], nil, "t/a", "t/b")
	_, named := c.collect(t, Query{Lines: -1, Follow: true})
	c.opts.Node = ""
	_, plain := c.collect(t, Query{Lines: -1, Follow: true})
	for path, position := range plain {
		if _, err := logfile.ParseMark(position); err != nil || named[path] != "n1:"+position {
			t.Errorf("%s: %q without a fleet and %q in one: %v", path, position, named[path], err)
		}
	}
	fleet := lead(t, machines[0], machines, allPlaces, "t/a", "t/b")
	if got, _ := fleet.collect(t, Query{Lines: -1, Follow: true, Paths: []string{"t/b"}, After: plain}); got != nil {
		t.Errorf("after a plain position: %q", got)
	}
	for _, bad := range []string{"", "x", "n1:", "n1:x", ":0.0.0.", "n1:0.0.0.,n1:0.0.0.", "0.0.0.,", "n1:n2:0.0.0."} {
		for _, err := range fleet.Logs(ctxOf(t), Query{Follow: true, After: map[string]string{"t/a": bad}}) {
			if !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%q: %v", bad, err)
			}
			break
		}
	}
}

func FuzzPosition(f *testing.F) {
	for _, text := range []string{"", "1.2.0.YQ", "a:1.2.0.YQ", "a:1.2.0.YQ,b:3.4.5.", "a:,:b", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMarks(text, "here")
		if err != nil {
			return
		}
		again, err := parseMarks(m.String(), "there")
		if err != nil || again.String() != m.String() {
			t.Errorf("%q is read as %q, and that as %q: %v", text, m, again, err)
		}
	})
}

// The last lines of an agent come from the node where it was started last.
func TestLastOfNode(t *testing.T) {
	t.Parallel()
	machines := newFiles(t)
	c := lead(t, machines[0], machines, allPlaces, "t/a", "t/b")
	if got, err := c.Last("t/a", 1); err != nil || strings.Join(got, " ") != "a9" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Last("t/a", 1<<40); err != nil || strings.Join(got, " ") != "a8 a9" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Last("t/b", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an agent without a log there: %q, %v", got, err)
	}
	var got []string
	err := c.Live(ctxOf(t), token.Caller{Path: "t/a"}, began.Add(8500*time.Millisecond), nil,
		func(text string) { got = append(got, text) })
	if err != nil || strings.Join(got, " ") != "a9" {
		t.Errorf("live: %q, %v", got, err)
	}
	c.move("n1", "t/a", nil)
	if got, err := c.Last("t/a", 1); err != nil || strings.Join(got, " ") != "a5" {
		t.Errorf("on this machine: %q, %v", got, err)
	}
	c.move("n2", "t/a", nil)
	machines[1].setCut(true)
	if got, err := c.Last("t/a", 1); !errors.Is(err, runtime.ErrUnknown) {
		t.Errorf("of a node that is cut off: %q, %v", got, err)
	}
}

// lines is a log that was read whole.
type lines struct {
	logfile.Reader
	all []logfile.Line
}

func (l *lines) Some(emit func(logfile.Line)) (bool, error) {
	for _, one := range l.all {
		emit(one)
	}
	l.all = nil
	return false, nil
}
func (*lines) Mark() logfile.Mark { return logfile.Mark{} }

// A follower gets the last lines, and all that has come while these were read.
func TestLastOfFollower(t *testing.T) {
	t.Parallel()
	r := &logReader{q: Query{Lines: 1, Follow: true}, startedAt: began.Add(4 * time.Second)}
	a := &agentLog{marks: make(marks)}
	for i := range 2 {
		l := new(lines)
		for second := i; second < 8; second += 2 {
			l.all = append(l.all, logfile.Line{
				Text: fmt.Sprint(second), Time: began.Add(time.Duration(second) * time.Second),
			})
		}
		a.sources = append(a.sources, &logSource{agent: a, tail: l})
	}
	var got []string
	for i, err := range r.lastStored(t.Context(), a) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, i.line.Line)
	}
	if strings.Join(got, " ") != "4 5 6 7" {
		t.Errorf("%q", got)
	}
}
