//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/census"
)

// TestMain lets this program be the supervisor raw.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-keep" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestFleet measures small fleets of what is here.
func TestFleet(t *testing.T) {
	t.Parallel()
	coppice := filepath.Join(t.TempDir(), "coppice")
	build := exec.Command("go", "build", "-C", "../../..", "-o", coppice, "./cmd/coppice")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"start_s", "rest_cpu_pct", "rest_rss_mb", "rest_pss_mb", "half_s", "stop_s"}
	for _, c := range []struct {
		impl, program string
		metrics       []string
	}{
		{"raw", self, all},
		{"coppice-up", coppice, append(all, "daemon_cpu_pct", "daemon_rss_mb", "decided_p99_us", "adopt_s")},
		{"supervisord", "supervisord", all},
		{"process-compose", "process-compose", all},
	} {
		t.Run(c.impl, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(c.program)
			if err != nil {
				t.Skip(err)
			}
			row, err := fleet(c.impl, program, 5, 7, 100*time.Millisecond)
			if err != nil || row.Note != "" {
				t.Fatalf("%s: %v", row.Note, err)
			}
			for _, metric := range c.metrics {
				if v, ok := row.Metrics[metric]; !ok || v < 0 || v > 10_000_000 {
					t.Errorf("%s: %v, measured: %t", metric, v, ok)
				}
			}
			if row.Metrics["rest_pss_mb"] > row.Metrics["rest_rss_mb"] || row.Metrics["rest_rss_mb"] < 1 {
				t.Errorf("memory: %v", row.Metrics)
			}
		})
	}
}

// TestPeerThatEnds has supervisors that end too early, and leave agents or none.
func TestPeerThatEnds(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"exit 1", "AGENT & exit 1", "AGENT & wait"} {
		c, err := census.New()
		if err != nil {
			t.Fatal(err)
		}
		script = strings.ReplaceAll(script, "AGENT", strings.Join(c.Agent, " "))
		k := &foreground{argv: []string{"sh", "-c", script}, dir: t.TempDir()}
		m := map[string]float64{}
		// The last one ends with its agent, which is killed.
		err = measure(k, c, 1, 0, 0, m)
		if err == nil {
			t.Errorf("%s: no error, measured %v", script, m)
		}
		if left, err := c.Count(); left > 0 || err != nil {
			t.Errorf("%s: %d agents are left: %v", script, left, err)
		}
	}
}

// TestNote has a peer that cannot start.
func TestNote(t *testing.T) {
	t.Parallel()
	row, err := fleet("supervisord", "false", 2, 0, 0)
	if err != nil || row.Note != "start: ended too early: false: exit status 1" || len(row.Metrics) != 0 {
		t.Errorf("%+v: %v", row, err)
	}
	if _, err := fleet("coppice-up", "false", 2, 0, 0); err == nil {
		t.Error("Coppice does not start, and that is no error")
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	if _, err := newKeeper("init", "", t.TempDir(), 1, []string{"true"}); err == nil {
		t.Error("a supervisor that is not known")
	}
}
