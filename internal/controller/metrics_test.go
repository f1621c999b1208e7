package controller

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Without [metrics] nothing is counted.
func TestNoMetrics(t *testing.T) {
	c := mustOpen(t, newStage(), memory.New(), treeOf(t, "a"))
	if c.metrics != nil {
		t.Error("it counts")
	}
	c.Stop(false)
	<-c.Ended()
}

// A change of [metrics] takes a restart of the daemon.
func TestMetricsChanged(t *testing.T) {
	before, after := treeOf(t, "a"), treeOf(t, "a")
	after.Metrics = spec.Metrics{Listen: "127.0.0.1:9464", MaxAgents: 5}
	if err := accepts(before, after); err == nil || !strings.HasPrefix(err.Error(),
		"[metrics] has changed from none to 127.0.0.1:9464 with at most 5 agents, which takes a restart") {
		t.Error(err)
	}
	if err := accepts(after, after); err != nil {
		t.Error(err)
	}
}

// BenchmarkScrape measures a scrape of 1,000 agents below ten supervisors, with reading their state.
func BenchmarkScrape(b *testing.B) {
	var words []string
	for i := range 10 {
		var agents []string
		for j := range 100 {
			agents = append(agents, fmt.Sprintf("a%d-%d", i, j))
		}
		words = append(words, fmt.Sprintf("g%d(%s)", i, strings.Join(agents, " ")))
	}
	tree := treeOf(b, words...)
	tree.Metrics = spec.Metrics{Listen: "127.0.0.1:9464", MaxAgents: 1000}
	c := mustOpen(b, newStage(), memory.New(), tree)
	if err := c.Started(context.Background()); err != nil {
		b.Fatal(err)
	}
	h := c.metrics.Handler()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(w.Body.String(), "coppice_agents{state=\"running\"} 1000\n") {
			b.Fatal(w.Body.String())
		}
	}
	c.Stop(false)
	<-c.Ended()
}
