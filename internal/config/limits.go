package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func limitsTable() toml.Table[spec.Limits] {
	return toml.Table[spec.Limits]{
		Header: "[agent.limits]",
		Doc: "What an agent may use at most. Without a key only the limit of the system applies. " +
			"[Runtimes and limits](runtimes.md) says what each limit covers and what happens when it is reached.",
		Example: `[[agent]]
name = "indexer"
command = "./index.sh"
limits = { memory = "2GiB", open_files = 4096, processes = 200 }
`,
		Keys: []toml.Key[spec.Limits]{
			{Name: "memory", Type: "size", Doc: "at least 1 MiB",
				Also: []string{"mem", "max_memory", "memory_max", "memory_limit", "ram"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.Limits) {
					if n, ok := r.Size(v); ok {
						into.Memory = n
					}
				}},
			{Name: "cpu", Type: "number", Doc: "cores: `0.5` is half of one, `2` is two",
				Also: []string{"cpus", "cores", "cpu_limit", "cpu_quota"},
				Read: func(r *toml.Reader, v *toml.Value, into *spec.Limits) {
					if n, ok := readCores(r, v); ok {
						into.CPU = n
					}
				}},
			{Name: "open_files", Type: "integer", Doc: "file descriptors of each process",
				Also: []string{"nofile", "files", "max_open_files", "fds"},
				Read: count(func(l *spec.Limits) *uint64 { return &l.OpenFiles })},
			{Name: "processes", Type: "integer", Doc: "processes and threads",
				Also: []string{"nproc", "pids", "tasks", "threads", "max_processes"},
				Read: count(func(l *spec.Limits) *uint64 { return &l.Processes })},
		},
	}
}

// count returns the read function of a key whose value is a number of things.
func count[T any](field func(*T) *uint64) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		if n, ok := r.Integer(v, 1, spec.MaxCount, fmt.Sprintf("an integer from 1 to %d", spec.MaxCount)); ok {
			*field(into) = uint64(n)
		}
	}
}

// readCores reads a number of cores above zero.
func readCores(r *toml.Reader, v *toml.Value) (float64, bool) {
	const expected = "a number of cores such as 0.5 or 2"
	if v.Kind == toml.KindInteger {
		n, ok := r.Integer(v, 1, spec.MaxCPU, expected)
		return float64(n), ok
	}
	if v.Kind == toml.KindString {
		hint := ""
		if _, err := strconv.ParseFloat(v.Text, 64); err == nil {
			hint = "write " + v.Text + " without quotes"
		}
		r.Fail(v, hint, "%s is %v, expected %s", r.Label(v), v.Kind, expected)
		return 0, false
	}
	if !r.Want(v, toml.KindFloat, expected) {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.Text, "_", ""), 64)
	if err != nil || !(n > 0) {
		r.Fail(v, "", "%s is %s, expected %s", r.Label(v), v.Text, expected)
		return 0, false
	}
	return n, true // the rest is checked with the others
}
