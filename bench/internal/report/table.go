package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// kind says what part an implementation plays in the comparison.
type kind uint8

const (
	floor kind = iota // no library: what the machine allows
	ours
	peer
)

func kindOf(impl string) kind {
	switch {
	case strings.HasPrefix(impl, "raw"), impl == "os/exec":
		return floor
	case strings.HasPrefix(impl, "coppice"):
		return ours
	}
	return peer
}

// panics reports whether the failures that impl is measured with are panics.
// hollywood knows no others.
func panics(impl string) bool {
	return strings.HasSuffix(impl, "-panic") || strings.HasPrefix(impl, "hollywood")
}

// table is one metric of one scenario.
type table struct {
	scenario, metric string
	title            string
	higher           bool // more is better
	only             func(impl string) bool
}

func tables() []table {
	errs := func(impl string) bool { return !panics(impl) }
	// The floor has no panics; it stands next to them all the same.
	pans := func(impl string) bool { return panics(impl) || kindOf(impl) == floor }
	return []table{
		{scenario: "spawn", metric: "spawn_s", title: "Spawn: seconds until n children run"},
		{scenario: "spawn", metric: "shutdown_s",
			title: "Stop: seconds until n children and their supervisor are down"},
		{scenario: "spawn", metric: "rss_per_child", title: "Memory: resident bytes per idle child"},
		{scenario: "spawn", metric: "heap_stack_per_child",
			title: "Memory: heap and stack bytes per idle child (Go only)"},
		{scenario: "restart", metric: "restarts_per_s",
			title: "Restarts/s of a child that fails with an error, next to n siblings", higher: true, only: errs},
		{scenario: "restart", metric: "restarts_per_s", title: "Restarts/s of a child that panics, next to n siblings",
			higher: true, only: pans},
		{scenario: "restart", metric: "lost_after", title: "Children lost: no more restarts after so many",
			higher: true},
		{scenario: "latency", metric: "p50_us", title: "Failure to running, error, p50 in µs, next to n siblings",
			only: errs},
		{scenario: "latency", metric: "p99_us", title: "Failure to running, error, p99 in µs, next to n siblings",
			only: errs},
		{scenario: "latency", metric: "p50_us", title: "Failure to running, panic, p50 in µs, next to n siblings",
			only: pans},
		{scenario: "latency", metric: "p99_us", title: "Failure to running, panic, p99 in µs, next to n siblings",
			only: pans},
		{scenario: "rest", metric: "p50_us", title: "rest_for_one: µs until n children run again, p50"},
		{scenario: "lost", metric: "lost", title: "Restarts that did not happen, of a child that " +
			"fails 100,000 times at once"},
		{scenario: "exec", metric: "p50_us", title: "OS process: SIGKILL to its successor's " +
			"first instruction, p50 in µs"},
		{scenario: "acted", metric: "decided_p50_us",
			title: "An exit is decided upon, no round of the patrol: SIGKILL to decision, p50 in µs, next to n agents"},
		{scenario: "acted", metric: "decided_p99_us",
			title: "An exit is decided upon: SIGKILL to decision, p99 in µs, next to n agents"},
		{scenario: "acted", metric: "renewed_p50_us",
			title: "An exit is acted on: SIGKILL to the successor's first instruction, p50 in µs, next to n agents"},
		{scenario: "acted", metric: "renewed_p99_us",
			title: "An exit is acted on: SIGKILL to the successor's first instruction, p99 in µs, next to n agents"},
		{scenario: "fleet", metric: "start_s", title: "Fleet: seconds until n agents run"},
		{scenario: "fleet", metric: "half_s", title: "Fleet: seconds until all run again, half of them killed " +
			"at once (process-compose waits for 1 s at least)"},
		{scenario: "fleet", metric: "stop_s", title: "Fleet: seconds until all are stopped"},
		{scenario: "fleet", metric: "rest_pss_mb", title: "Fleet at rest: all that supervises, MB of PSS"},
		{scenario: "fleet", metric: "rest_rss_mb", title: "Fleet at rest: all that supervises, MB of RSS"},
		{scenario: "fleet", metric: "rest_cpu_pct", title: "Fleet at rest: all that supervises, % of a core"},
		{scenario: "fleet", metric: "daemon_cpu_pct", title: "Fleet at rest: the daemon alone, % of a core"},
		{scenario: "fleet", metric: "daemon_rss_mb", title: "Fleet at rest: the daemon alone, MB of RSS"},
		{scenario: "fleet", metric: "decided_p50_us", title: "Fleet: one killed among n until decided, p50 in µs"},
		{scenario: "fleet", metric: "decided_p99_us", title: "Fleet: one killed among n until decided, p99 in µs"},
		{scenario: "fleet", metric: "adopt_s",
			title: "Fleet: seconds until a new daemon has found all agents again, the old one killed"},
		{scenario: "look", metric: "page_first_ms", title: "The page of n agents, the first time, in ms"},
		{scenario: "look", metric: "page_p50_ms", title: "The page of n agents, p50 in ms"},
		{scenario: "look", metric: "page_kb", title: "The page of n agents, kB as sent"},
		{scenario: "look", metric: "scrape_p50_ms", title: "A scrape of the metrics of n agents, p50 in ms"},
		{scenario: "look", metric: "scrape_cpu_ms", title: "A scrape of the metrics of n agents, ms of computing"},
		{scenario: "follow-claude", metric: "idle_cpu_pct",
			title: "Follow 100 agents of claude next to n files of sessions: idle, % of a core"},
		{scenario: "follow-claude", metric: "busy_cpu_pct",
			title: "Follow 100 agents of claude: 100 of n files are appended to each second, % of a core"},
		{scenario: "follow-claude", metric: "find_p50_ms",
			title: "Follow 100 agents of claude: until a new session is found next to n, p50 in ms"},
		{scenario: "follow-claude", metric: "find_max_ms",
			title: "Follow 100 agents of claude: until a new session is found next to n, the longest in ms"},
		{scenario: "follow-codex", metric: "idle_cpu_pct",
			title: "Follow 100 agents of codex next to n files of sessions: idle, % of a core"},
		{scenario: "follow-codex", metric: "busy_cpu_pct",
			title: "Follow 100 agents of codex: 100 of n files are appended to each second, % of a core"},
		{scenario: "follow-codex", metric: "find_p50_ms",
			title: "Follow 100 agents of codex: until a new session is found next to n, p50 in ms"},
		{scenario: "follow-codex", metric: "find_max_ms",
			title: "Follow 100 agents of codex: until a new session is found next to n, the longest in ms"},
		{scenario: "output", metric: "mb_per_s", title: "Output: MB/s of a program that writes lines of n bytes",
			higher: true},
		{scenario: "output", metric: "cpu_s_per_gb",
			title: "Output: seconds of computing of what takes 1 GB of lines of n bytes"},
		{scenario: "belief", metric: "writes_per_s",
			title: "Beliefs: durable writes/s of n agents, each one after the other", higher: true},
		{scenario: "belief", metric: "p50_us", title: "Beliefs: a write of one of n agents, p50 in µs"},
		{scenario: "belief", metric: "p99_us", title: "Beliefs: a write of one of n agents, p99 in µs"},
		{scenario: "belief", metric: "daemon_cpu_us", title: "Beliefs: computing of the daemon for a write, in µs"},
		{scenario: "cron", metric: "often_ns", title: "Cron: the next time of */5 * * * *, in ns"},
		{scenario: "cron", metric: "daily_ns", title: "Cron: the next time of 30 4 * * *, in ns"},
		{scenario: "cron", metric: "seldom_ns", title: "Cron: the next time of 0 0 29 2 *, in ns"},
		{scenario: "cron", metric: "parse_ns", title: "Cron: reading */5 9-17 * * MON-FRI, in ns"},
		{scenario: "orders", metric: "rest_us", title: "Orders: a look at n of which none is due, in µs"},
		{scenario: "orders", metric: "fire_us", title: "Orders: one is due next to n at rest, µs of computing"},
		{scenario: "orders", metric: "longest_us",
			title: "Orders: all of n are due at once, the longest step, µs of computing"},
		{scenario: "attempts", metric: "claim_p50_us",
			title: "10,000 tasks: one claimed by one of n workers, p50 in µs"},
		{scenario: "attempts", metric: "claim_p99_us",
			title: "10,000 tasks: one claimed by one of n workers, p99 in µs"},
		{scenario: "attempts", metric: "list_p50_us", title: "10,000 tasks: the first 50 listed, p50 in µs"},
		{scenario: "attempts", metric: "list_p99_us", title: "10,000 tasks: the first 50 listed, p99 in µs"},
		{scenario: "attempts", metric: "route_p50_us", title: "10,000 tasks: an attempt ended, p50 in µs"},
		{scenario: "attempts", metric: "route_p99_us", title: "10,000 tasks: an attempt ended, p99 in µs"},
		{scenario: "work", metric: "adds_per_s",
			title: "Tasks: added/s by n workers, each one after the other, all durable", higher: true},
		{scenario: "work", metric: "done_per_s",
			title: "Tasks: claimed and closed/s by n workers, each one after the other, all durable", higher: true},
		{scenario: "work", metric: "done_p99_us",
			title: "Tasks: one claimed and closed by one of n workers, p99 in µs"},
		{scenario: "work", metric: "done_cpu_us",
			title: "Tasks: computing of all processes for one claimed and closed, in µs"},
		{scenario: "store", metric: "serial_p50_us",
			title: "Stores: a record is written on a condition, one after the other, n members, p50 in µs"},
		{scenario: "store", metric: "serial_p99_us",
			title: "Stores: a record is written on a condition, one after the other, n members, p99 in µs"},
		{scenario: "store", metric: "serial_per_s",
			title: "Stores: records/s that are written on a condition, one after the other, n members", higher: true},
		{scenario: "store", metric: "many_per_s",
			title: "Stores: records/s that 16 writers write on conditions, n members", higher: true},
		{scenario: "store", metric: "logged_per_s",
			title:  "Stores: records/s that 16 writers write, each with an event in the same log, n members",
			higher: true},
		{scenario: "store", metric: "events_per_s",
			title: "Stores: events/s, 50 of them in each write, n members", higher: true},
		{scenario: "store", metric: "snapshot_ms", title: "Stores: 10,000 records are read, n members, p50 in ms"},
		{scenario: "store", metric: "watch_p50_us",
			title: "Stores: from the call that writes a record until a watch has the change, n members, p50 in µs"},
		{scenario: "store", metric: "acquire_ms", title: "Stores: a lease is acquired, n members, p50 in ms"},
		{scenario: "store", metric: "renew_ms", title: "Stores: a lease is renewed, n members, p50 in ms"},
		{scenario: "store", metric: "release_ms", title: "Stores: a lease is released, n members, p50 in ms"},
		{scenario: "exec", metric: "p99_us", title: "OS process: SIGKILL to its successor's " +
			"first instruction, p99 in µs"},
		{scenario: "exit", metric: "p50_us", title: "OS process: its own end to its successor's " +
			"first instruction, p50 in µs"},
		{scenario: "exit", metric: "p99_us", title: "OS process: its own end to its successor's " +
			"first instruction, p99 in µs"},
	}
}

// WriteTables prints one Markdown table for each metric that was measured.
func (r *Results) WriteTables(w io.Writer) {
	for _, t := range tables() {
		var cells [][]string
		for _, n := range r.ns[t.scenario] {
			cells = append(cells, r.lines(t, n)...)
		}
		if len(cells) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n### %s\n\n", t.title)
		writeMarkdown(w, append([][]string{{"n", "impl", "median [min..max]", "x floor", "x best peer"}}, cells...))
	}
}

// lines are the rows of t for one n.
func (r *Results) lines(t table, n int) [][]string {
	at := func(impl string) Summary { return r.summary(key{t.scenario, n, impl, t.metric}) }
	var shown []string
	var best float64
	for _, impl := range r.impls {
		s := at(impl)
		if s.Reps == 0 || t.only != nil && !t.only(impl) {
			continue
		}
		shown = append(shown, impl)
		if kindOf(impl) == peer && (best == 0 || (s.Median > best) == t.higher) {
			best = s.Median
		}
	}
	over := func(x, y float64) string {
		if y == 0 {
			return "-"
		}
		return ratio(x / y)
	}
	var out [][]string
	for _, impl := range shown {
		s := at(impl)
		base := at(floorOf(impl, shown)).Median
		out = append(out, []string{number(float64(n)), impl, s.String(), over(s.Median, base), over(s.Median, best)})
	}
	return out
}

// floorOf returns the floor with which impl is compared: the one that is named like it, such as raw-etcd for
// coppice-etcd, or else the last one. It is empty if there is none.
func floorOf(impl string, impls []string) string {
	_, like, named := strings.Cut(impl, "-")
	last := ""
	for _, f := range impls {
		if kindOf(f) != floor {
			continue
		}
		if named && f == "raw-"+like {
			return f
		}
		last = f
	}
	return last
}

// writeMarkdown pads the cells, so that the table is readable as text too.
func writeMarkdown(w io.Writer, cells [][]string) {
	width := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	line := func(row []string) {
		for i, c := range row {
			fmt.Fprintf(w, "| %s%s ", c, strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)))
		}
		fmt.Fprintln(w, "|")
	}
	line(cells[0])
	for _, n := range width {
		fmt.Fprintf(w, "|%s", strings.Repeat("-", n+2))
	}
	fmt.Fprintln(w, "|")
	for _, row := range cells[1:] {
		line(row)
	}
}
