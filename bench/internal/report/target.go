package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// many stands for the largest n that was measured: 100,000, or less in a quick run.
const many = -1

// target compares one of our medians with a reference: at most, or at least,
// factor times as much. Where the reference names several implementations,
// the best one counts; where it names none, no measurement may be below 0 or above limit.
type target struct {
	row      string // of the project's list of targets
	scenario string
	metric   string
	ours     string
	n        int
	against  []string // implementations; ours itself where refN differs
	refN     int
	factor   float64
	limit    float64 // where against is empty
	atLeast  bool
}

// targets are the project's: what it promises to reach on two cores.
func targets() []target {
	otp := []string{"otp-static", "otp-static-gs", "otp-simple", "otp-simple-gs"}
	var ts []target
	// idle compares each way to start many children.
	idle := func(row, metric string, factor float64, against ...string) {
		for _, impl := range []string{"coppice", "coppice-add", "coppice-pool"} {
			ts = append(ts, target{row: row, scenario: "spawn", metric: metric, ours: impl, n: many,
				against: against, refN: many, factor: factor})
		}
	}
	idle("spawn 100,000 children", "spawn_s", 2, "raw")
	idle("spawn, faster than suture", "spawn_s", 1, "suture")
	idle("spawn, faster than OTP", "spawn_s", 1, otp...)
	idle("bytes per idle child (RSS)", "rss_per_child", 1.15, "raw")
	// "At most 0.5 s where raw takes 0.04 s", on whatever machine.
	idle("stop 100,000 in order", "shutdown_s", 12.5, "raw")
	idle("stop, faster than OTP", "shutdown_s", 1, otp...)
	// hot compares at 0 siblings and at many.
	hot := func(row, scenario, metric, impl, against string, factor float64, atLeast bool) {
		for _, n := range []int{0, many} {
			ts = append(ts, target{row: row, scenario: scenario, metric: metric, ours: impl, n: n,
				against: []string{against}, refN: n, factor: factor, atLeast: atLeast})
		}
	}
	// flat compares many siblings with 0.
	flat := func(row, scenario, metric string, factor float64, atLeast bool) {
		ts = append(ts, target{row: row, scenario: scenario, metric: metric, ours: "coppice", n: many,
			against: []string{"coppice"}, refN: 0, factor: factor, atLeast: atLeast})
	}
	hot("restarts/s, error exit", "restart", "restarts_per_s", "coppice", "suture", 1, true)
	flat("restarts/s, error exit, same within 20 %", "restart", "restarts_per_s", 0.8, true)
	flat("restarts/s, error exit, same within 20 %", "restart", "restarts_per_s", 1.25, false)
	hot("restarts/s, panic", "restart", "restarts_per_s", "coppice-panic", "suture-panic", 5, true)
	hot("failure to running, p50", "latency", "p50_us", "coppice", "suture", 1, false)
	hot("failure to running, p99", "latency", "p99_us", "coppice", "suture", 1, false)
	// Caches alone make raw's p50 grow by a quarter to a half.
	flat("failure to running, p50, flat", "latency", "p50_us", 1.5, false)
	for _, death := range []struct{ scenario, row string }{
		{"exec", "SIGKILL to the successor's exec through the shim, p50"},
		{"exit", "failure to the successor's exec through the shim, p50"},
	} {
		ts = append(ts, target{row: death.row, scenario: death.scenario, metric: "p50_us", ours: "coppice-up", n: many,
			against: []string{"os/exec"}, refN: many, factor: 2})
	}
	ts = append(ts, fleetTargets()...)
	ts = append(ts, storeTargets()...)
	for _, impl := range []string{"coppice-book", "coppice-socket"} {
		ts = append(ts, target{row: "10,000 durable belief writes/s, 100 agents: µs for each", scenario: "belief",
			metric: "us_per_write", ours: impl, n: many, limit: 100})
	}
	crons := []string{"robfig-cron", "gronx", "cronexpr"}
	for _, metric := range []string{"often_ns", "daily_ns", "seldom_ns"} {
		ts = append(ts, target{row: "cron, the next time, faster than peers", scenario: "cron", metric: metric,
			ours: "coppice", n: many, against: crons, refN: many, factor: 1})
	}
	for _, metric := range []string{"rest_us", "longest_us"} {
		ts = append(ts, target{row: "10,000 orders: a tick within 10 ms, µs of computing", scenario: "orders",
			metric: metric, ours: "coppice", n: many, limit: 10_000})
	}
	for _, scenario := range []string{"follow-claude", "follow-codex"} {
		for _, metric := range []string{"idle_cpu_pct", "busy_cpu_pct"} {
			ts = append(ts, target{row: "100 agents next to 10,000 sessions, not above one walk", scenario: scenario,
				metric: metric, ours: "coppice-calls", n: many, against: []string{"raw-walk"}, refN: many, factor: 1})
		}
		ts = append(ts, target{row: "a new session among 10,000, found about as fast as by one walk each 2 s",
			scenario: scenario, metric: "find_max_ms", ours: "coppice-calls", n: many,
			against: []string{"raw-walk"}, refN: many, factor: 1.5})
	}
	for _, look := range []struct {
		row, metric string
		limit       float64
	}{
		{"the first page of 1,000 agents, in ms", "page_first_ms", 100},
		{"the page of 1,000 agents, kB as sent", "page_kb", 60},
		{"a scrape of the metrics of 1,000 agents, ms of computing", "scrape_cpu_ms", 5},
	} {
		ts = append(ts, target{row: look.row, scenario: "look", metric: look.metric, ours: "coppice-up", n: many,
			limit: look.limit})
	}
	return append(ts,
		target{row: "10,000 orders: one that is due, cheaper than peers", scenario: "orders", metric: "fire_us",
			ours: "coppice", n: many, against: crons, refN: many, factor: 1},
		target{row: "an exit is acted on within 5 ms, p50 in µs", scenario: "acted", metric: "renewed_p50_us",
			ours: "coppice-up", n: many, limit: 5000},
		target{row: "an exit is decided upon within 5 ms, p99 in µs", scenario: "acted", metric: "decided_p99_us",
			ours: "coppice-up", n: many, limit: 5000},
		target{row: "output through a slot, 500 MB/s: seconds for 1 GB", scenario: "output", metric: "s_per_gb",
			ours: "coppice-up", n: many, limit: 2},
		target{row: "output through a slot, against cat", scenario: "output", metric: "s_per_gb", ours: "coppice-up",
			n: many, against: []string{"raw-cat"}, refN: many, factor: 4},
		target{row: "writes/s next to one commit for each", scenario: "belief", metric: "writes_per_s",
			ours: "coppice-book", n: many, against: []string{"raw-commit"}, refN: many, factor: 3, atLeast: true},
		target{row: "tasks claimed and closed/s by many, not below a queue", scenario: "work", metric: "done_per_s",
			ours: "coppice-queue", n: many, against: []string{"goqite"}, refN: many, factor: 1, atLeast: true},
		target{row: "a task of 10,000 is claimed within 5 ms, p50 in µs", scenario: "attempts", metric: "claim_p50_us",
			ours: "coppice-socket", n: 1, limit: 5000},
		target{row: "10,000 tasks: the first are listed within 5 ms, p50 in µs", scenario: "attempts",
			metric: "list_p50_us", ours: "coppice-socket", n: 1, limit: 5000},
		target{row: "an attempt at one of 10,000 tasks is ended within 5 ms, p50 in µs", scenario: "attempts",
			metric: "route_p50_us", ours: "coppice-socket", n: 1, limit: 5000},
		target{row: "rest_for_one, 1000 children", scenario: "rest", metric: "p50_us", ours: "coppice-rest", n: many,
			against: otp, refN: many, factor: 0.5},
		target{row: "100,000 restarts, none lost", scenario: "lost", metric: "lost", ours: "coppice", n: many},
		target{row: "100,000 restarts, none lost", scenario: "lost", metric: "lost", ours: "coppice-panic", n: many},
		target{row: "SIGKILL to the successor's exec, p50", scenario: "exec", metric: "p50_us", ours: "coppice-run",
			n: many, against: []string{"os/exec"}, refN: many, factor: 1.5},
	)
}

// fleetTargets are those of many agents that do nothing.
func fleetTargets() []target {
	var ts []target
	for _, n := range []int{100, 1000} {
		ts = append(ts, target{row: "a fleet runs, not after process-compose's, seconds", scenario: "fleet",
			metric: "start_s", ours: "coppice-up", n: n, against: []string{"process-compose"}, refN: n, factor: 1})
	}
	for _, t := range []struct {
		row, metric string
		n           int
		limit       float64
	}{
		{"100 agents at rest, MB of all that supervises", "rest_pss_mb", 100, 60},
		{"1000 agents at rest, MB of all that supervises", "rest_pss_mb", 1000, 120},
		{"10,000 agents at rest, MB of all that supervises", "rest_pss_mb", 10_000, 1000},
		{"half of 1000 killed until all run, seconds", "half_s", 1000, 0.7},
		{"one of 1000 killed, decided within 5 ms, p99 in µs", "decided_p99_us", 1000, 5000},
		{"daemon back with 1000 agents, seconds", "adopt_s", 1000, 1},
		{"stop of 1000 in order, seconds", "stop_s", 1000, 1},
		{"1000 agents at rest, % of a core of the daemon", "daemon_cpu_pct", 1000, 1},
		{"1000 agents at rest, MB of the daemon", "daemon_rss_mb", 1000, 150},
		{"10,000 agents at rest, % of a core of the daemon", "daemon_cpu_pct", 10_000, 2},
		{"10,000 agents at rest, MB of the daemon", "daemon_rss_mb", 10_000, 300},
	} {
		ts = append(ts, target{row: t.row, scenario: "fleet", metric: t.metric, ours: "coppice-up", n: t.n,
			limit: t.limit})
	}
	for _, t := range []struct{ row, metric string }{
		{"10,000 agents run, each as fast as one of 1000", "start_s"},
		{"half of 10,000 killed, each back as fast as one of 1000", "half_s"},
		{"stop of 10,000, each as fast as one of 1000", "stop_s"},
	} {
		ts = append(ts, target{row: t.row + ", within 20 %", scenario: "fleet", metric: t.metric, ours: "coppice-up",
			n: 10_000, against: []string{"coppice-up"}, refN: 1000, factor: 12})
	}
	return ts
}

// Outcome is the result of a target.
type Outcome string

const (
	Met         Outcome = "met"
	NotMet      Outcome = "NOT MET"
	NotMeasured Outcome = "not measured"
)

// verdict is a target with what was measured.
type verdict struct {
	target
	got, ref Summary
	refImpl  string
	outcome  Outcome
}

// judge holds the results against t.
func (r *Results) judge(t target) verdict {
	v := verdict{target: t, outcome: NotMeasured}
	ns := r.ns[t.scenario]
	if len(ns) == 0 {
		return v
	}
	if v.n == many {
		v.n = ns[len(ns)-1]
	}
	if v.refN == many {
		v.refN = ns[len(ns)-1]
	}
	v.got = r.summary(key{t.scenario, v.n, t.ours, t.metric})
	for _, impl := range t.against {
		s := r.summary(key{t.scenario, v.refN, impl, t.metric})
		better := s.Median < v.ref.Median
		if t.atLeast {
			better = s.Median > v.ref.Median
		}
		if s.Reps > 0 && (v.ref.Reps == 0 || better) {
			v.ref, v.refImpl = s, impl
		}
	}
	same := len(t.against) == 1 && t.against[0] == t.ours && v.n == v.refN
	var met bool
	switch {
	case v.got.Reps == 0, same, len(t.against) > 0 && v.ref.Reps == 0:
		return v
	case len(t.against) == 0:
		met = v.got.Min >= 0 && v.got.Max <= v.limit
	case t.atLeast:
		met = v.got.Median >= t.factor*v.ref.Median
	default:
		met = v.got.Median <= t.factor*v.ref.Median
	}
	v.outcome = NotMet
	if met {
		v.outcome = Met
	}
	return v
}

// cells are the columns target, ours, measured, limit, ratio, outcome.
func (v verdict) cells() []string {
	who := fmt.Sprintf("%s, n=%s", v.ours, number(float64(v.n)))
	if v.got.Reps == 0 {
		who = v.ours
	}
	limit, times := "<= "+number(v.limit), "-"
	if len(v.against) > 0 {
		word := "<="
		if v.atLeast {
			word = ">="
		}
		ref := strings.Join(v.against, "/")
		if v.ref.Reps > 0 {
			ref = fmt.Sprintf("%s %s", v.refImpl, number(v.ref.Median))
		}
		if v.refN != v.n && v.ref.Reps > 0 {
			ref += fmt.Sprintf(" at n=%s", number(float64(v.refN)))
		}
		limit = fmt.Sprintf("%s %s x %s", word, ratio(v.factor), ref)
		if v.ref.Median > 0 && v.got.Reps > 0 {
			times = ratio(v.got.Median / v.ref.Median)
		}
	}
	return []string{v.row, who, v.got.String(), limit, times, string(v.outcome)}
}

// WriteTargets prints each target with what was measured, and reports
// whether none was missed. What was not measured is not missed.
func (r *Results) WriteTargets(w io.Writer) bool {
	cells := [][]string{{"target", "measured on", "median [min..max]", "limit", "ratio", ""}}
	count := map[Outcome]int{}
	for _, t := range targets() {
		v := r.judge(t)
		count[v.outcome]++
		cells = append(cells, v.cells())
	}
	fmt.Fprintf(w, "\n## Targets\n\n")
	writeMarkdown(w, cells)
	fmt.Fprintf(w, "\n%d met, %d not met, %d not measured.\n", count[Met], count[NotMet], count[NotMeasured])
	if ns := r.ns["spawn"]; len(ns) > 0 && !slices.Contains(ns, 100_000) {
		fmt.Fprintf(w, "The targets are meant for 100,000 children; this run had at most %s.\n",
			number(float64(ns[len(ns)-1])))
	}
	return count[NotMet] == 0
}
