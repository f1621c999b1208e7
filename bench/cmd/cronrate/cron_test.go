package main

import (
	"testing"
	"time"
)

// What is compared does the same: all find the same times.
func TestAgree(t *testing.T) {
	for _, expr := range expressions() {
		var want []time.Time
		for _, impl := range []string{"coppice", "robfig-cron", "gronx", "cronexpr"} {
			next, err := parse(impl, expr)
			if err != nil {
				t.Fatal(err)
			}
			at, err := begin()
			if err != nil {
				t.Fatal(err)
			}
			for i := range walk {
				if at, err = next(at); err != nil {
					t.Fatal(err)
				}
				if impl == "coppice" {
					want = append(want, at)
				} else if !at.Equal(want[i]) {
					t.Errorf("%s: %s: %v, want %v", expr, impl, at, want[i])
				}
			}
		}
	}
}

func TestMeasure(t *testing.T) {
	for _, q := range []struct{ impl, scenario string }{
		{"coppice", "cron"}, {"robfig-cron", "cron"}, {"gronx", "cron"}, {"cronexpr", "cron"},
		{"coppice", "orders"}, {"robfig-cron", "orders"}, {"gronx", "orders"},
	} {
		row, err := measure(q.impl, q.scenario, 100, 20*time.Millisecond)
		if err != nil || len(row.Metrics) == 0 {
			t.Errorf("%+v: %+v, %v", q, row, err)
		}
		for metric, v := range row.Metrics {
			if v < 0 || v == 0 && metric != "rest_us" {
				t.Errorf("%+v: %s is %v", q, metric, v)
			}
		}
	}
	if _, err := measure("cronexpr", "orders", 100, time.Millisecond); err == nil {
		t.Error("cronexpr has no scheduler")
	}
}
