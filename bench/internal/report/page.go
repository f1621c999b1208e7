package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// ReadRows reads rows as the runner writes them, one a line.
func ReadRows(r io.Reader) ([]Row, error) {
	var rows []Row
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var row Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("line %d, %.200q: %w", n, lines.Bytes(), err)
		}
		rows = append(rows, row)
	}
	return rows, lines.Err()
}

// pageMetric is a metric on the page.
type pageMetric struct {
	metric, title string
	plotted       bool
}

func fleetMetrics() []pageMetric {
	return []pageMetric{
		{"start_s", "Start of all, in s", true},
		{"half_s", "Half killed until all run again, in s", true},
		{"stop_s", "Stop of all, in s", true},
		{"rest_pss_mb", "Memory of all that supervises, in MB", true},
		{"rest_cpu_pct", "Processor time at rest, in % of a core", false},
		{"decided_p99_us", "One killed until decided, p99 in µs", false},
		{"adopt_s", "Adoption by a new daemon, in s", false},
	}
}

func storeMetrics() []pageMetric {
	return []pageMetric{
		{metric: "serial_p50_us", title: "A record is written, one after the other, p50 in µs"},
		{metric: "many_per_s", title: "16 writers, each its own record, records/s"},
		{metric: "logged_per_s", title: "16 writers, each its own record and an event in the same log, records/s"},
		{metric: "events_per_s", title: "Writes of 50 events, events/s"},
		{metric: "snapshot_ms", title: "10,000 records are read, p50 in ms"},
		{metric: "watch_p50_us", title: "From the call that writes until a watch has the change, p50 in µs"},
		{metric: "acquire_ms", title: "A lease is acquired, p50 in ms"},
		{metric: "renew_ms", title: "A lease is renewed, p50 in ms"},
		{metric: "release_ms", title: "A lease is released, p50 in ms"},
	}
}

// WritePage writes what fleets cost as a page of the documentation, with the growth over n as an image, and what the
// stores cost if that was measured. The page names the image and the machine as they are given.
func (r *Results) WritePage(page, image io.Writer, imageName, machine string) error {
	const scenario = "fleet"
	if len(r.ns[scenario]) == 0 {
		return fmt.Errorf("the results have no fleets; measure them with -only %s", scenario)
	}
	e := &errWriter{w: page}
	e.printf(`# Performance

This page shows what a fleet of n agents that sleep costs, with Coppice and with other supervisors, and what the
[stores](#stores) cost. Use it to estimate what a fleet of your own needs before its agents do anything.

Measured on %s, fleets and stores each in one run, as the [benchmarks](../bench/README.md#what-is-measured) describe:

    cd bench && go run ./cmd/bench -only fleet,store && go run ./cmd/bench -doc ../docs/performance.md

![growth over the number of agents, on logarithmic axes](%s)
`, machine, imageName)
	var plots []plot
	for _, m := range fleetMetrics() {
		cells := r.pageTable(scenario, m.metric)
		if len(cells) == 1 {
			continue
		}
		e.printf("\n## %s\n\n", m.title)
		var table bytes.Buffer
		writeMarkdown(&table, cells)
		e.printf("%s", table.Bytes())
		if m.plotted {
			plots = append(plots, r.plot(scenario, m.metric, m.title))
		}
	}
	r.writeStores(e)
	e.printf(`
## Limits

Each cell is the median, with the range if it was measured more than once. The supervisors do not offer the same:

* raw, a bare loop of fork and exec, has no names, limits or records.
* coppice starts later than process-compose because each agent gets what outlives the daemon: a slot with a lock and a
  record of what runs there, a control group, and an event on the disk.
* When process-compose or supervisord is killed, its next start does not know the agents that still run.
* process-compose waits for 1 s at least before it restarts an agent, and supervisord looks once in a second at what
  is to be started or stopped.
`)
	said := map[string]bool{} // in an earlier repetition
	for _, l := range r.Left {
		note := fmt.Sprintf("* %s, n = %s, is not measured, or in part: %s\n", l.Impl, number(float64(l.N)), l.Note)
		if l.Scenario == scenario && !said[note] {
			said[note] = true
			e.printf("%s", note)
		}
	}
	if e.err != nil {
		return e.err
	}
	return writePlots(image, plots)
}

// writeStores writes the part of the page about stores.
func (r *Results) writeStores(e *errWriter) {
	const scenario = "store"
	if len(r.ns[scenario]) == 0 {
		return
	}
	e.printf(`
## Stores

SQLite keeps the state of one machine, and etcd that of many. Its n members are all on the same machine and disk here.
raw-sqlite and raw-etcd are the databases alone: writes with nothing around them. Records and events have 500 bytes. Each
write is on the disk before the next one of the same writer.
`)
	for _, m := range storeMetrics() {
		if cells := r.pageTable(scenario, m.metric); len(cells) > 1 {
			e.printf("\n### %s\n\n", m.title)
			var table bytes.Buffer
			writeMarkdown(&table, cells)
			e.printf("%s", table.Bytes())
		}
	}
}

// pageTable has a line for each implementation, below the heading, and a column for each n.
func (r *Results) pageTable(scenario, metric string) [][]string {
	heading := []string{""}
	for _, n := range r.ns[scenario] {
		heading = append(heading, "n = "+number(float64(n)))
	}
	cells := [][]string{heading}
	for _, impl := range r.impls {
		row, measured := []string{impl}, false
		for _, n := range r.ns[scenario] {
			s := r.summary(key{scenario, n, impl, metric})
			text := ""
			if s.Reps > 0 {
				text, measured = s.String(), true
			}
			row = append(row, text)
		}
		if measured {
			cells = append(cells, row)
		}
	}
	return cells
}

// errWriter keeps the first error of writing.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

// escape writes a text as XML.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}
