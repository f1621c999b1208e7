package worker

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/spanid"
)

// The commands of an attempt run in its span, if the worker runs in one of the daemon.
func TestSpan(t *testing.T) {
	mine := spanid.Incarnation("n", "t/fixer", 7)
	for env, want := range map[string]string{
		"A=b": "", "TRACEPARENT=x": "",
		"TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": "",
		"TRACEPARENT=" + mine.Traceparent():                                   mine.Attempt("T-1", 2).Traceparent(),
	} {
		j := &job{worker: &worker{env: []string{"X=y", env}}}
		j.facts.Task.Task.ID, j.facts.Number = "T-1", 2
		if got := (&caller{job: j}).span(); got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}
