//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

func TestMeasure(t *testing.T) {
	all := []string{"serial_p50_us", "serial_per_s", "many_per_s", "logged_per_s", "events_per_s", "snapshot_ms"}
	more := append(all[:len(all):len(all)], "watch_p50_us", "acquire_ms", "renew_ms", "release_ms")
	for _, c := range []struct {
		impl    string
		members int
		metrics []string
	}{
		{"raw-sqlite", 1, all}, {"coppice-sqlite", 1, more}, {"raw-etcd", 1, more}, {"coppice-etcd", 3, more},
	} {
		t.Run(c.impl, func(t *testing.T) {
			p := program{impl: c.impl, members: c.members}
			if c.impl == "raw-etcd" || c.impl == "coppice-etcd" {
				p.server = filepath.Join("..", "..", "..", ".cache", "etcd", "etcd")
				if _, err := os.Stat(p.server); err != nil {
					exectest.Missing(t, err)
				}
			}
			row, err := measure(t.Context(), p, sizes{span: 20 * time.Millisecond, records: 120, rounds: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range c.metrics {
				if row.Metrics[m] <= 0 {
					t.Errorf("%s is %v", m, row.Metrics[m])
				}
			}
			if row.Scenario != "store" || row.Impl != c.impl || row.N != c.members {
				t.Errorf("row %+v", row)
			}
		})
	}
}

// TestMeasureFails has no server, and one that ends immediately.
func TestMeasureFails(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "false")
	exectest.Write(t, broken, "#!/bin/sh\necho broken >&2\nexit 1\n")
	for _, p := range []program{{impl: "none"}, {impl: "raw-etcd", members: 1}, {"coppice-etcd", broken, 1}} {
		if row, err := measure(t.Context(), p, sizes{}); err == nil {
			t.Errorf("%+v: measured %+v", p, row)
		} else {
			t.Log(err)
		}
	}
}
