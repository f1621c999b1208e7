// Command cronrate measures schedulers of the calendar, one a process: how long
// it takes to find the next time of an expression, and what 10,000 orders cost
// while they wait and when one of them, or all, are due.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	impl := flag.String("impl", "", "coppice, robfig-cron, gronx or cronexpr")
	scenario := flag.String("scenario", "cron", "cron or orders")
	n := flag.Int("n", 10_000, "orders")
	long := flag.Duration("d", 300*time.Millisecond, "how long each number is measured")
	flag.Parse()
	row, err := measure(*impl, *scenario, *n, *long)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cronrate:", err)
		os.Exit(1)
	}
}

func measure(impl, scenario string, n int, d time.Duration) (report.Row, error) {
	row := report.Row{Impl: impl, Scenario: scenario, N: n}
	var err error
	switch {
	case scenario == "cron":
		row.N = 1
		row.Metrics, err = nextTimes(impl, d)
	case scenario == "orders" && impl == "coppice":
		row.Metrics, err = engineOrders(n, d)
	case scenario == "orders" && impl == "robfig-cron":
		row.Metrics, err = robfigOrders(n, d)
	case scenario == "orders" && impl == "gronx":
		row.Metrics, err = gronxOrders(n, d)
	default:
		err = fmt.Errorf("%s has no scenario %q", impl, scenario)
	}
	return row, err
}

// zone has changes of the clock, as most people's have.
const zone = "Europe/Berlin"

// walk is the number of steps before it begins again: until 2084. Some look only
// five years ahead, and find no February 29 after that of 2096.
const walk = 15

// begin is the first time of the walk.
func begin() (time.Time, error) {
	berlin, err := time.LoadLocation(zone)
	return time.Date(2024, 1, 1, 0, 0, 0, 0, berlin), err
}

// expressions by the metric that says how long the next time takes: within the
// hour, within the day, and years away.
func expressions() map[string]string {
	return map[string]string{"often_ns": "*/5 * * * *", "daily_ns": "30 4 * * *", "seldom_ns": "0 0 29 2 *"}
}

// nextTimes measures the step from one time of an expression to the next, and the parsing.
func nextTimes(impl string, d time.Duration) (map[string]float64, error) {
	from, err := begin()
	if err != nil {
		return nil, err
	}
	m := make(map[string]float64)
	for metric, expr := range expressions() {
		next, err := parse(impl, expr)
		if err != nil {
			return nil, err
		}
		at, k := from, 0
		m[metric] = float64(each(d, func() error {
			if at, err = next(at); err != nil {
				return err
			}
			if k++; k%walk == 0 { // all walk through the same years
				at = from
			}
			return nil
		}, &err))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
	}
	m["parse_ns"] = float64(each(d, func() error {
		_, err := parse(impl, "*/5 9-17 * * MON-FRI")
		return err
	}, &err))
	return m, err
}

// each returns the time of f in nanoseconds: the median of 15 stretches.
func each(d time.Duration, f func() error, failed *error) int64 {
	const stretches = 15
	var took []int64
	for range stretches {
		n, from := 0, time.Now()
		for time.Since(from) < d/stretches {
			for range 10 {
				if err := f(); err != nil {
					*failed = err
					return 0
				}
			}
			n += 10
		}
		took = append(took, time.Since(from).Nanoseconds()/int64(n))
	}
	slices.Sort(took)
	return took[stretches/2]
}
