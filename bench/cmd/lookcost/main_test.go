//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMeasure(t *testing.T) {
	coppice := filepath.Join(t.TempDir(), "coppice")
	build := exec.Command("go", "build", "-o", coppice, "./cmd/coppice")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for impl, metrics := range map[string][]string{
		"raw":        {"page_first_ms", "page_p50_ms", "page_kb", "scrape_p50_ms", "scrape_kb"},
		"coppice-up": {"page_first_ms", "page_p50_ms", "page_kb", "scrape_p50_ms", "scrape_kb"},
	} {
		row, err := measure(impl, coppice, 3, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metrics {
			if row.Metrics[m] <= 0 {
				t.Errorf("%s: %s is %v", impl, m, row.Metrics[m])
			}
		}
	}
	if _, err := measure("none", "", 1, 1); err == nil {
		t.Error("nothing was measured")
	}
}
