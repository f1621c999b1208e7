package output

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
)

func number(n uint64) *uint64 { return &n }

// The server reads the query that the client has sent.
func TestRequests(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for name, test := range map[string]struct {
		request logsRequest
		want    any // a Query, or a part of the error
	}{
		"nothing": {logsRequest{}, Query{Lines: 100}},
		"no lines": {
			logsRequest{Paths: []string{"a", "b/c"}, Lines: number(0), Follow: true},
			Query{Paths: []string{"a", "b/c"}, Follow: true},
		},
		"all lines":      {logsRequest{Lines: number(allLines)}, Query{Lines: -1}},
		"too many lines": {logsRequest{Lines: number(allLines + 1)}, "parameter n is 1000001, expected at most 1000000"},
		"since":          {logsRequest{Since: "2026-01-02T03:04:05.6Z"}, Query{Lines: -1, Since: at}},
		"no time":        {logsRequest{Since: "soon"}, "expected a time as in RFC 3339"},
		"pattern":        {logsRequest{Grep: "a+b", Lines: number(7)}, Query{Lines: 7, Grep: "a+b"}},
		"no pattern":     {logsRequest{Grep: "("}, "parameter grep: error parsing regexp: missing closing )"},
		"large pattern":  {logsRequest{Grep: "(a{1000}){1000}"}, "parameter grep: error parsing regexp: invalid repeat"},
		"long pattern":   {logsRequest{Grep: strings.Repeat("a", 2000)}, "at most 1024"},
		"positions": {
			logsRequest{After: []string{"1.2.0.x a/b", "y c"}},
			Query{Lines: 100, After: map[string]string{"a/b": "1.2.0.x", "c": "y"}},
		},
		"no position": {logsRequest{After: []string{"x"}}, "expected a position and a path"},
	} {
		t.Run(name, func(t *testing.T) {
			var got Query
			d := apitest.Serve(t, func(s *api.Server) {
				HandleLogs(s, func(_ context.Context, q Query) iter.Seq2[Line, error] {
					got = q
					return func(func(Line, error) bool) {}
				})
			})
			var err error
			for _, err = range logs.Open(t.Context(), d.People(), test.request) {
			}
			if text, fails := test.want.(string); fails {
				if !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want %s", err, text)
				}
			} else if d := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
				t.Errorf("%v\n%s", err, d)
			}
		})
	}
}

// A follower that connects again continues after the last line of each agent. For agents without
// lines it asks for everything since it started.
func TestFollowerGoesOn(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &follower{q: Query{Paths: []string{"x"}, Lines: 5, Follow: true}, start: began}
	check := func(what string, want logsRequest) {
		t.Helper()
		want.Paths, want.Follow = []string{"x"}, true
		got, err := f.request()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", what, err, d)
		}
	}
	check("at first", logsRequest{Lines: number(5)})
	f.after = map[string]string{"x/a": "1", "x/b": "2"}
	check("amid what was there", logsRequest{Lines: number(5), After: []string{"1 x/a", "2 x/b"}})
	f.live = true
	check("later", logsRequest{Since: "2026-01-02T03:04:05Z", After: []string{"1 x/a", "2 x/b"}})
	for i := range 1000 {
		f.after[fmt.Sprint("x/", i)] = "an.in.0.place"
	}
	if _, err := f.request(); !errors.Is(err, api.ErrLost) {
		t.Errorf("of too many agents: %v", err)
	}
}

// Over two connections, a follower gets each line once, and the live message once.
func TestFollowTwoConnections(t *testing.T) {
	lines := []Line{
		{Path: "x/a", Line: "1", Position: "p1"}, {Live: true}, {Path: "x/a", Line: "2", Position: "p2"},
		{Live: true}, {Path: "x/b", Line: "3", Position: "q1"},
	}
	var asked []Query
	d := apitest.Serve(t, func(s *api.Server) {
		HandleLogs(s, func(_ context.Context, q Query) iter.Seq2[Line, error] {
			asked = append(asked, q)
			return func(yield func(Line, error) bool) {
				part := lines[:3]
				if len(asked) == 2 {
					part = lines[3:]
				}
				for _, l := range part {
					yield(l, nil)
				}
				if len(asked) == 1 {
					panic(http.ErrAbortHandler)
				}
			}
		})
	})
	var got []string
	for l, err := range Logs(t.Context(), d.People(), Query{Paths: []string{"x"}, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(l.Line, l.Live))
	}
	if want := []string{"1false", "true", "2false", "3false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(asked) != 2 || asked[1].After["x/a"] != "p2" || asked[1].Since.IsZero() {
		t.Errorf("%+v", asked)
	}
}
