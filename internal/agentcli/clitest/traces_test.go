package clitest

import (
	"encoding/hex"
	"os"
	"regexp"
	"testing"

	"github.com/coppice-dev/coppice/internal/spanid"
	"github.com/coppice-dev/coppice/internal/traces/tracestest"
)

// What claude exports with the variables that docs/traces.md names is below the span in TRACEPARENT.
func TestTraceparent(t *testing.T) {
	set := Installed(t, "../../../.cache/clis")
	page, err := os.ReadFile("../../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	r := tracestest.New(t)
	id := spanid.Incarnation("n", "t/coder", 1)
	env := []string{spanid.Variable + "=" + id.Traceparent()}
	for _, kv := range regexp.MustCompile(`((?:CLAUDE|OTEL)_[A-Z_]+) = "([^"]*)"`).FindAllStringSubmatch(string(page), -1) {
		if kv[1] == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			kv[2] = r.URL
		}
		env = append(env, kv[1]+"="+kv[2])
	}
	m := newModel(t)
	h := NewHome(t, set, Claude, m.listener.URL("@", tag))
	h.more = env
	m.answers(t, "tool")
	h.Start(t, "", "What is the answer?", nil).End(t)
	all, below := r.Spans(), 0
	for _, s := range all {
		if s.Trace != hex.EncodeToString(id.Trace[:]) {
			t.Errorf("%+v is in another trace than %v", s, id)
		}
		if s.Parent == hex.EncodeToString(id.Span[:]) {
			below++
		}
	}
	if below == 0 {
		t.Errorf("none of %d spans is below %s: %+v", len(all), id.Traceparent(), all)
	}
}
