package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

func limitsTable() table[spec.Limits] {
	return table[spec.Limits]{
		header: "[agent.limits]",
		doc: "What an agent may use at most. Without a key there is no limit but that of the system. [The " +
			"daemon](daemon.md) says what a limit holds for and what comes of reaching it.",
		example: `[[agent]]
name = "indexer"
command = "./index.sh"
limits = { memory = "2GiB", open_files = 4096, processes = 200 }
`,
		keys: []key[spec.Limits]{
			{row{name: "memory", typ: "size", doc: "at least 1 MiB",
				also: []string{"mem", "max_memory", "memory_max", "memory_limit", "ram"}},
				func(r *reader, v *value, into *spec.Limits) {
					if n, ok := r.size(v); ok {
						into.Memory = n
					}
				}},
			{row{name: "cpu", typ: "number", doc: "cores: `0.5` is half of one, `2` is two",
				also: []string{"cpus", "cores", "cpu_limit", "cpu_quota"}},
				func(r *reader, v *value, into *spec.Limits) {
					if n, ok := r.cores(v); ok {
						into.CPU = n
					}
				}},
			{row{name: "open_files", typ: "integer", doc: "file descriptors of each process",
				also: []string{"nofile", "files", "max_open_files", "fds"}},
				count(func(l *spec.Limits) *uint64 { return &l.OpenFiles })},
			{row{name: "processes", typ: "integer", doc: "processes and threads",
				also: []string{"nproc", "pids", "tasks", "threads", "max_processes"}},
				count(func(l *spec.Limits) *uint64 { return &l.Processes })},
		},
	}
}

// count is the read function of a key whose value is a number of things.
func count[T any](field func(*T) *uint64) func(*reader, *value, *T) {
	return func(r *reader, v *value, into *T) {
		if n, ok := r.integer(v, 1, spec.MaxCount, fmt.Sprintf("an integer from 1 to %d", spec.MaxCount)); ok {
			*field(into) = uint64(n)
		}
	}
}

// cores reads a number of cores above zero.
func (r *reader) cores(v *value) (float64, bool) {
	const expected = "a number of cores such as 0.5 or 2"
	if v.kind == isInteger {
		n, ok := r.integer(v, 1, spec.MaxCPU, expected)
		return float64(n), ok
	}
	if v.kind == isString {
		hint := ""
		if _, err := strconv.ParseFloat(v.text, 64); err == nil {
			hint = "write " + v.text + " without quotes"
		}
		r.fail(v.at, v, hint, "%s is %v, expected %s", r.label(v), v.kind, expected)
		return 0, false
	}
	if !r.want(v, isFloat, expected) {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.text, "_", ""), 64)
	if err != nil || !(n > 0) {
		r.fail(v.at, v, "", "%s is %s, expected %s", r.label(v), v.text, expected)
		return 0, false
	}
	return n, true // the rest is checked with the others
}
