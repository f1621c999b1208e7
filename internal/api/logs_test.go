package api

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLogQuery(t *testing.T) {
	var params []param
	for _, rt := range routes() {
		if rt.path == "/v1/logs" {
			params = rt.params
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for raw, want := range map[string]any{
		"":                                  LogQuery{Lines: 100},
		"path=a&path=b/c&n=0&follow=true":   LogQuery{Paths: []string{"a", "b/c"}, Follow: true},
		"n=1000000":                         LogQuery{Lines: -1},
		"since=2026-01-02T03:04:05.6Z":      LogQuery{Lines: -1, Since: at},
		"grep=a%2Bb&n=7":                    LogQuery{Lines: 7, Grep: "a+b"},
		"after=1.2.0.x%20a/b&after=y%20c":   LogQuery{Lines: 100, After: map[string]string{"a/b": "1.2.0.x", "c": "y"}},
		"n=1000001":                         "parameter n is 1000001, expected at most 1000000",
		"since=soon":                        "expected a time as in RFC 3339",
		"grep=(":                            "parameter grep: error parsing regexp: missing closing )",
		"grep=(a{1000}){1000}":              "parameter grep: error parsing regexp: invalid repeat count",
		"grep=" + strings.Repeat("a", 2000): "at most 1024",
		"after=x":                           "expected a position and a path",
		"lines=3":                           `unknown parameter "lines"`,
	} {
		var got LogQuery
		q, err := parseQuery(raw, params)
		if err == nil {
			got, err = q.logs()
		}
		if text, fails := want.(string); fails {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), text) {
				t.Errorf("%.40s: %v, want %s", raw, err, text)
			}
		} else if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", raw, err, d)
		}
	}
}

// A follower that was cut off goes on behind the last line of each agent; of those
// that had said nothing it wants all that they have said since it began.
func TestLogsGoOn(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &followingLogs{q: LogQuery{Paths: []string{"x"}, Lines: 5, Follow: true}, start: began}
	check := func(what string, want url.Values) {
		t.Helper()
		got, err := f.values()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", what, err, d)
		}
	}
	check("at first", url.Values{"path": {"x"}, "follow": {"true"}, "n": {"5"}})
	f.after = map[string]string{"x/a": "1", "x/b": "2"}
	check("amid what was there", url.Values{"path": {"x"}, "follow": {"true"}, "n": {"5"}, "after": {"1 x/a", "2 x/b"}})
	f.live = true
	check("later", url.Values{"path": {"x"}, "follow": {"true"}, "since": {"2026-01-02T03:04:05Z"}, "after": {"1 x/a", "2 x/b"}})
	for i := range 1000 {
		f.after[fmt.Sprint("x/", i)] = "an.in.0.place"
	}
	if _, err := f.values(); !errors.Is(err, ErrLost) {
		t.Errorf("of too many agents: %v", err)
	}
}
