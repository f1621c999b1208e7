package config

import (
	"errors"
	"fmt"
	"math"
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

const sizeType = `a size such as "512MiB" or a number of bytes`

// size reads a number of bytes above zero.
func (r *reader) size(v *value) (int64, bool) {
	if v.kind == isInteger {
		return r.integer(v, 1, math.MaxInt64, sizeType)
	}
	if !r.want(v, isString, sizeType) {
		return 0, false
	}
	n, err := parseSize(v.text)
	if err != nil {
		hint := "the units are K, M, G, T, KiB, MiB, GiB, TiB (powers of 1024) and KB, MB, GB, TB (of 1000)"
		if errors.Is(err, errNoUnit) {
			hint = "write " + spec.Quote(strings.TrimSpace(v.text)+"MiB") + " if mebibytes are meant"
		}
		r.fail(v.at, v, hint, "%s is %s, %v, expected %s", r.label(v), spec.Quote(v.text), err, sizeType)
		return 0, false
	}
	return n, true
}

var (
	errNoUnit = errors.New("a number without a unit")
	errNoSize = errors.New("not a size")
)

// parseSize reads a size with a unit, in any case: K, M, G and T are powers of
// 1024 as in systemd and Docker, and so are KiB and Ki; KB is 1000 bytes.
func parseSize(text string) (int64, error) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, unit := text[:end], strings.ToLower(strings.TrimSpace(text[end:]))
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, errNoSize
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errNoSize
	}
	factor := 1.0
	switch base, power := 1024.0, strings.Index("kmgt", unit[:min(1, len(unit))])+1; {
	case unit == "":
		return 0, errNoUnit
	case unit == "b":
	case power == 0:
		return 0, errNoSize
	default:
		switch unit[1:] {
		case "", "i", "ib":
		case "b":
			base = 1000
		default:
			return 0, errNoSize
		}
		factor = math.Pow(base, float64(power))
	}
	switch bytes := n * factor; {
	case bytes >= math.MaxInt64:
		return 0, errors.New("more than there can be")
	case bytes < 1:
		return 0, errors.New("less than a byte")
	default:
		return int64(bytes), nil
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
