package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
)

func TestSame(t *testing.T) {
	o := runtime.Observation{Life: runtime.Alive, Said: sdnotify.Notice{Since: time.Now(), Status: "x"}}
	if !same(o, o) {
		t.Error("an observation has changed by itself")
	}
	for i, change := range []func(*runtime.Observation){
		func(o *runtime.Observation) { o.Life = runtime.Unknown },
		func(o *runtime.Observation) { o.Ready = true },
		func(o *runtime.Observation) { o.PID = 1 },
		func(o *runtime.Observation) { o.Detail = "x" },
		func(o *runtime.Observation) { o.Said.Status = "y" },
		func(o *runtime.Observation) { o.Said.Alive = time.Now() },
		func(o *runtime.Observation) { o.Said.Stopping = time.Now() },
		func(o *runtime.Observation) { o.Said.Since = o.Said.Since.Add(time.Second) },
	} {
		other := o
		change(&other)
		if same(o, other) {
			t.Errorf("change %d is none", i)
		}
	}
}

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		lines string
		n     int
		want  string
	}{
		{"a b c", 3, "a b c"}, {"a b c", 2, "b c"}, {"aa bb cc", 5, "bb cc"}, {"aaaa", 2, "aa"}, {"a bbbb", 2, "bb"},
		{"", 5, ""}, {"a b", 0, ""},
	} {
		if got := strings.Join(lastLines(strings.Fields(c.lines), c.n), " "); got != c.want {
			t.Errorf("%q, %d: %q, expected %q", c.lines, c.n, got, c.want)
		}
	}
}
