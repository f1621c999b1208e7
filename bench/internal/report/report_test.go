package report

import (
	"slices"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want Summary
		text string
	}{
		{nil, Summary{}, "-"},
		{[]float64{7}, Summary{7, 7, 7, 1}, "7"},
		{[]float64{9, 1, 5}, Summary{5, 1, 9, 3}, "5 [1..9]"},
		{[]float64{4, 1, 2, 100}, Summary{3, 1, 100, 4}, "3 [1..100]"},
		{[]float64{1234567, 0.25}, Summary{617283.625, 0.25, 1234567, 2}, "617,284 [0.25..1,234,567]"},
	} {
		in := slices.Clone(c.in)
		if got := Summarize(c.in); got != c.want {
			t.Errorf("Summarize(%v) = %+v, want %+v", c.in, got, c.want)
		}
		if !slices.Equal(in, c.in) {
			t.Errorf("Summarize changed its argument to %v", c.in)
		}
		if got := Summarize(c.in).String(); got != c.text {
			t.Errorf("%v: %q, want %q", c.in, got, c.text)
		}
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", 0.04352: "0.0435", 3.256: "3.26", 12.34: "12.3", 100: "100", 999.96: "1000.0",
		1000: "1,000", 1234567.8: "1,234,568", -2500: "-2,500",
	} {
		if got := number(in); got != want {
			t.Errorf("number(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	r, err := Parse([]byte("warning\n{\"impl\":\"raw\",\"scenario\":\"spawn\",\"n\":5,\"metrics\":{\"spawn_s\":0.5}}\n\n"))
	if err != nil || r.Impl != "raw" || r.N != 5 || r.Metrics["spawn_s"] != 0.5 {
		t.Errorf("Parse = %+v, %v", r, err)
	}
	for _, bad := range []string{"", "\n", "{", "{}", `{"impl":"raw"}`, "{\"metrics\":{\"a\":1}}\nlast words"} {
		if r, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%q) = %+v, want an error", bad, r)
		}
	}
}

// rows makes n repetitions of one measurement.
func rows(impl, scenario string, n int, metric string, values ...float64) []Row {
	var out []Row
	for i, v := range values {
		out = append(out, Row{Impl: impl, Scenario: scenario, N: n, Rep: i, Metrics: map[string]float64{metric: v}})
	}
	return out
}

func TestTableRatios(t *testing.T) {
	r := Collect(slices.Concat(
		rows("raw", "spawn", 100, "spawn_s", 1, 3, 2),
		rows("suture", "spawn", 100, "spawn_s", 8),
		rows("coppice", "spawn", 100, "spawn_s", 3),
		rows("otp-static", "spawn", 100, "spawn_s", 6),
		rows("raw", "restart", 0, "restarts_per_s", 1000),
		rows("suture", "restart", 0, "restarts_per_s", 400),
		rows("suture-panic", "restart", 0, "restarts_per_s", 40),
		rows("hollywood-inbox16", "restart", 0, "restarts_per_s", 50),
		rows("coppice-panic", "restart", 0, "restarts_per_s", 200),
		[]Row{{Impl: "suture", Scenario: "spawn", N: 100, Error: "broken"}},
	))
	if len(r.Failed) != 1 {
		t.Errorf("failed: %v", r.Failed)
	}
	var b strings.Builder
	r.WriteTables(&b)
	for _, want := range []string{
		// The best peer of spawn is the fastest, 6; the floor is 2.
		"| 100 | raw        | 2 [1..3]          | 1.00    | 0.33        |",
		"| 100 | suture     | 8                 | 4.00    | 1.33        |",
		"| 100 | coppice    | 3                 | 1.50    | 0.50        |",
		"| 100 | otp-static | 6                 | 3.00    | 1.00        |",
		// Among those that panic more is better: hollywood's 50, not suture's 400.
		"| 0 | coppice-panic     | 200               | 0.20    | 4.00        |",
		"| 0 | suture-panic      | 40                | 0.04    | 0.80        |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "\n### ") != 3 { // spawn, restart by error, restart by panic
		t.Errorf("not three tables:\n%s", b.String())
	}
}

// TestFloors has two floors in one table.
func TestFloors(t *testing.T) {
	r := Collect(slices.Concat(
		rows("raw-sqlite", "store", 1, "serial_p50_us", 100), rows("coppice-sqlite", "store", 1, "serial_p50_us", 150),
		rows("raw-etcd", "store", 1, "serial_p50_us", 400), rows("coppice-etcd", "store", 1, "serial_p50_us", 500),
		rows("coppice", "store", 1, "serial_p50_us", 200), rows("coppice-sqlite", "store", 1, "renew_ms", 2),
	))
	var b strings.Builder
	r.WriteTables(&b)
	for _, want := range []string{
		"| 1 | raw-sqlite     | 100               | 1.00    | -           |",
		"| 1 | coppice-sqlite | 150               | 1.50    | -           |",
		"| 1 | raw-etcd       | 400               | 1.00    | -           |",
		"| 1 | coppice-etcd   | 500               | 1.25    | -           |",
		"| 1 | coppice        | 200               | 0.50    | -           |", // of the last floor
		"| 1 | coppice-sqlite | 2                 | -       | -           |", // without a floor
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

func TestJudge(t *testing.T) {
	atMost := target{scenario: "s", metric: "m", ours: "coppice", n: many, against: []string{"a", "b"}, refN: many, factor: 2}
	atLeast := atMost
	atLeast.atLeast = true
	zero := target{scenario: "s", metric: "m", ours: "coppice", n: many}
	flat := target{scenario: "s", metric: "m", ours: "coppice", n: many, against: []string{"coppice"}, refN: 0, factor: 1.5}
	for _, c := range []struct {
		name string
		target
		rows []Row
		want Outcome
	}{
		{"nothing", atMost, nil, NotMeasured},
		{"ours is missing", atMost, rows("a", "s", 9, "m", 1), NotMeasured},
		{"reference is missing", atMost, rows("coppice", "s", 9, "m", 1), NotMeasured},
		{"other n", atMost, slices.Concat(rows("coppice", "s", 9, "m", 1), rows("a", "s", 8, "m", 1)), NotMeasured},
		{"at the limit", atMost, slices.Concat(rows("coppice", "s", 9, "m", 9, 4, 1), rows("a", "s", 9, "m", 2)), Met},
		{"over the limit", atMost, slices.Concat(rows("coppice", "s", 9, "m", 4.1), rows("a", "s", 9, "m", 2)), NotMet},
		{"the best reference", atMost, slices.Concat(rows("coppice", "s", 9, "m", 4.1), rows("a", "s", 9, "m", 3), rows("b", "s", 9, "m", 2)), NotMet},
		{"at least", atLeast, slices.Concat(rows("coppice", "s", 9, "m", 6), rows("a", "s", 9, "m", 3), rows("b", "s", 9, "m", 2)), Met},
		{"less than the best", atLeast, slices.Concat(rows("coppice", "s", 9, "m", 5), rows("a", "s", 9, "m", 3), rows("b", "s", 9, "m", 2)), NotMet},
		{"zero", zero, rows("coppice", "s", 0, "m", 0, 0), Met},
		{"zero but once", zero, rows("coppice", "s", 0, "m", 0, 0, 1), NotMet},
		{"one too many", zero, rows("coppice", "s", 0, "m", 0, -1), NotMet},
		{"flat", flat, slices.Concat(rows("coppice", "s", 0, "m", 2), rows("coppice", "s", 9, "m", 3)), Met},
		{"steep", flat, slices.Concat(rows("coppice", "s", 0, "m", 2), rows("coppice", "s", 9, "m", 3.1)), NotMet},
		{"only one n", flat, rows("coppice", "s", 0, "m", 2), NotMeasured},
	} {
		if got := Collect(c.rows).judge(c.target); got.outcome != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
}

func TestWriteTargets(t *testing.T) {
	var b strings.Builder
	spawn := slices.Concat(rows("raw", "spawn", 100_000, "spawn_s", 1), rows("coppice", "spawn", 100_000, "spawn_s", 1.5))
	if !Collect(spawn).WriteTargets(&b) || !strings.Contains(b.String(), "1 met, 0 not met") {
		t.Errorf("a target that is met:\n%s", b.String())
	}
	b.Reset()
	spawn = append(spawn, rows("suture", "spawn", 100_000, "spawn_s", 1.4)...)
	if Collect(spawn).WriteTargets(&b) || !strings.Contains(b.String(), "1 met, 1 not met") {
		t.Errorf("a target that is not met:\n%s", b.String())
	}
}

// TestFleetTargets holds each n to its own limits, and 10,000 to the time of 1000.
func TestFleetTargets(t *testing.T) {
	r := Collect(slices.Concat(
		rows("coppice-up", "fleet", 1000, "start_s", 2), rows("process-compose", "fleet", 1000, "start_s", 2.5),
		rows("coppice-up", "fleet", 10_000, "start_s", 24.1),
		rows("coppice-up", "fleet", 100, "rest_pss_mb", 60), rows("coppice-up", "fleet", 1000, "rest_pss_mb", 121),
	))
	got := map[Outcome]int{}
	for _, target := range fleetTargets() {
		got[r.judge(target).outcome]++
	}
	// Met are the start of 1000 and the memory of 100.
	if got[Met] != 2 || got[NotMet] != 2 {
		t.Errorf("outcomes: %v", got)
	}
}

// TestStoreTargets holds each store to its own floor, with the same number of members.
func TestStoreTargets(t *testing.T) {
	r := Collect(slices.Concat(
		rows("raw-sqlite", "store", 1, "serial_p50_us", 100), rows("coppice-sqlite", "store", 1, "serial_p50_us", 251),
		rows("raw-etcd", "store", 1, "serial_p50_us", 400), rows("coppice-etcd", "store", 1, "serial_p50_us", 1000),
		rows("raw-etcd", "store", 3, "serial_p50_us", 1000), rows("coppice-etcd", "store", 3, "serial_p50_us", 2501),
		rows("raw-etcd", "store", 3, "many_per_s", 1000), rows("coppice-etcd", "store", 3, "many_per_s", 500),
		rows("raw-etcd", "store", 3, "watch_p50_us", 1000), rows("coppice-etcd", "store", 3, "watch_p50_us", 2001),
	))
	got := map[Outcome]int{}
	for _, target := range storeTargets() {
		got[r.judge(target).outcome]++
	}
	// Met are the record of etcd with 1 member, and the 16 writers.
	if got[Met] != 2 || got[NotMet] != 3 {
		t.Errorf("outcomes: %v", got)
	}
}

// TestNote has a peer that reaches a part of what is measured.
func TestNote(t *testing.T) {
	t.Parallel()
	row, err := Parse([]byte(`{"impl":"supervisord","scenario":"fleet","n":10,"note":"start: too slow"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := Collect([]Row{row})
	if len(r.Left) != 1 || len(r.Failed) != 0 {
		t.Errorf("left %v, failed %v", r.Left, r.Failed)
	}
}
