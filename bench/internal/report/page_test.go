package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage compares the page of measured rows with what was written before; WRITE=1 writes it again.
func TestPage(t *testing.T) {
	t.Parallel()
	file, err := os.Open(filepath.Join("testdata", "fleet.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := ReadRows(file)
	if err != nil {
		t.Fatal(err)
	}
	var page, image strings.Builder
	if err := Collect(rows).WritePage(&page, &image, "fleet.svg", "two CPUs"); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"fleet.md": page.String(), "fleet.svg": image.String()} {
		path := filepath.Join("testdata", name)
		if os.Getenv("WRITE") != "" {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s has changed; look at the difference after WRITE=1: %v", name, err)
		}
	}
	wellFormed(t, image.String())
}

func wellFormed(t *testing.T, image string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(image)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the image is no XML: %v\n%s", err, image)
		}
	}
}

func TestPageWithoutFleets(t *testing.T) {
	t.Parallel()
	err := Collect(rows("raw", "spawn", 100, "spawn_s", 1)).WritePage(io.Discard, io.Discard, "", "")
	if err == nil || !strings.Contains(err.Error(), "-only fleet") {
		t.Errorf("a page of no fleets: %v", err)
	}
}

func TestReadRows(t *testing.T) {
	t.Parallel()
	if _, err := ReadRows(strings.NewReader("{}\n{\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("half a row: %v", err)
	}
}

// TestPlot has values that fit no decade: none, one n, equal values, 0.
func TestPlot(t *testing.T) {
	t.Parallel()
	for name, measured := range map[string][]Row{
		"nothing": nil,
		"one":     rows("raw", "fleet", 10, "start_s", 1),
		"zero":    rows("raw", "fleet", 10, "start_s", 0),
		"no n":    rows("raw", "fleet", 0, "start_s", 1),
		"text":    rows("<&\"raw", "fleet", 10, "start_s", 3),
	} {
		var b strings.Builder
		if err := writePlots(&b, []plot{Collect(measured).plot("fleet", "start_s", "a < b")}); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, b.String())
		if s := b.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%s:\n%s", name, s)
		}
	}
	a := newAxis([]float64{10, 1000}, 0, 200)
	if got := a.at(100); got != 100 || len(a.decades()) != 3 {
		t.Errorf("100 of 10..1000 is at %v of 0..200, decades %v", got, a.decades())
	}
}
