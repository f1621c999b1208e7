// Command gobench puts one question to one Go supervision library and prints
// the answer as a JSON object. One process answers one question, so that
// neither garbage nor goroutines of one measurement reach the next. The
// runner, cmd/bench, calls it; by hand it is of use with a profile:
//
//	go run ./cmd/gobench -impl coppice -scenario restart -n 0 -cpuprofile cpu.prof
//
// ../../README.md defines the questions.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"

	"github.com/coppice-dev/coppice/bench/internal/report"
)

// fleet is a supervisor of some library with children in it.
type fleet interface {
	// start brings up the supervisor with n idle children and, where hot is
	// set, one child more that obeys the probe. It returns when the library
	// says that they have been started.
	start(n int, hot bool) error
	// crash asks the hot child to fail.
	crash()
	// stop ends the supervisor and returns when it is down.
	stop() error
}

// counter is a fleet whose library counts restarts itself.
type counter interface{ restarts() (int, error) }

type adapter struct {
	name string
	make func(*probe) fleet
}

// adapters lists every way to run a fleet. The -rest ones make the first child
// the hot one and restart all others with it.
func adapters() []adapter {
	return []adapter{
		{"raw", func(p *probe) fleet { return &raw{p: p} }},
		{"raw-rest", func(p *probe) fleet { return &rawRest{p: p} }},
		{"suture", func(p *probe) fleet { return &sutureFleet{p: p} }},
		{"suture-panic", func(p *probe) fleet { return &sutureFleet{p: p, panics: true} }},
		{"coppice", func(p *probe) fleet { return &coppiceFleet{p: p} }},
		{"coppice-add", func(p *probe) fleet { return &coppiceFleet{p: p, way: added} }},
		{"coppice-pool", func(p *probe) fleet { return &coppiceFleet{p: p, way: instances} }},
		{"coppice-panic", func(p *probe) fleet { return &coppiceFleet{p: p, panics: true} }},
		{"coppice-rest", func(p *probe) fleet { return &coppiceFleet{p: p, rest: true} }},
		{"hollywood", func(p *probe) fleet { return &hollywoodFleet{p: p, inbox: 1024} }},
		{"hollywood-inbox16", func(p *probe) fleet { return &hollywoodFleet{p: p, inbox: 16} }},
	}
}

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gobench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("gobench", flag.ContinueOnError)
	impl := fs.String("impl", "raw", "`adapter`")
	name := fs.String("scenario", "spawn", "spawn, restart, latency, rest or lost")
	o := options{}
	fs.IntVar(&o.n, "n", 100_000, "children, next to the hot one")
	fs.DurationVar(&o.storm, "d", 0, "length of a restart storm (default 2s)")
	fs.IntVar(&o.rounds, "rounds", 0, "crashes in latency (default 1000), in rest (30), in lost (100000)")
	fs.DurationVar(&o.pause, "pause", 0, "pause between two crashes (default 2ms)")
	cpu := fs.String("cpuprofile", "", "write a CPU profile of the whole run to `file`")
	fs.StringVar(&o.heapProfile, "heapprofile", "",
		"spawn: write a heap profile of the idle fleet to `file`; set -memrate as well")
	fs.IntVar(&runtime.MemProfileRate, "memrate", runtime.MemProfileRate, "bytes per heap profile sample")
	if err := fs.Parse(args); err != nil {
		return err
	}
	i := slices.IndexFunc(adapters(), func(a adapter) bool { return a.name == *impl })
	if i < 0 {
		return fmt.Errorf("unknown adapter %q", *impl)
	}
	ask, ok := scenarios()[*name]
	if !ok {
		return fmt.Errorf("unknown scenario %q", *name)
	}
	if *cpu != "" {
		f, err := os.Create(*cpu)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	p := &probe{}
	metrics, err := ask(adapters()[i].make(p), p, o)
	if err != nil {
		return fmt.Errorf("%s %s: %w", *impl, *name, err)
	}
	return json.NewEncoder(os.Stdout).Encode(report.Row{
		Impl: *impl, Scenario: *name, N: o.n, Metrics: metrics,
	})
}
