// Command bench puts the same questions to Coppice, to its peers and to the
// bare machine, and prints who answered how. Run it in the directory of this
// module:
//
//	go run ./cmd/bench [-reps 3] [-quick] [-only spawn,exec] [-impl raw,coppice] [-strict]
//	go run ./cmd/bench -doc FILE.md
//
// The rows go to results/latest.ndjson as they come; the tables with ratios
// and the verdict on each target go to stdout when all is measured.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// config has the values of the flags.
type config struct {
	reps   int
	quick  bool
	only   []string // scenarios
	impls  []string // prefixes; empty for all
	strict bool
	doc    string // a page to write instead of measuring
}

func parseFlags(args []string) (config, error) {
	var c config
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&c.reps, "reps", 3, "repetitions")
	fs.BoolVar(&c.quick, "quick", false, "10,000 children instead of 100,000, short storms")
	fs.BoolVar(&c.strict, "strict", false, "exit with 1 if a target is not met")
	fs.StringVar(&c.doc, "doc", "", "measure nothing, and write the last results of fleets and stores as a page "+
		"to `FILE.md`")
	only := fs.String("only", strings.Join(scenarios(), ","), "`scenarios` to run")
	impls := fs.String("impl", "", "run only implementations that begin with one of these `prefixes`")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	if c.doc != "" && filepath.Ext(c.doc) != ".md" {
		return c, fmt.Errorf("-doc %s: expected a name that ends with .md", c.doc)
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if c.reps < 1 {
		return c, fmt.Errorf("-reps %d: expected 1 or more", c.reps)
	}
	c.only = strings.Split(*only, ",")
	for _, s := range c.only {
		if !slices.Contains(scenarios(), s) {
			return c, fmt.Errorf("-only %q: expected some of %s", s, strings.Join(scenarios(), ","))
		}
	}
	if *impls != "" {
		c.impls = strings.Split(*impls, ",")
	}
	return c, nil
}

func run(ctx context.Context, args []string) error {
	c, err := parseFlags(args)
	if err != nil {
		return err
	}
	if c.doc != "" {
		return writePage(c.doc, latest())
	}
	tmp, err := os.MkdirTemp("", "coppice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	p, err := build(ctx, tmp)
	if err != nil {
		return err
	}
	for _, n := range p.notes {
		fmt.Fprintln(os.Stderr, "note:", n)
	}
	out, err := create(latest())
	if err != nil {
		return err
	}
	rows, err := measure(ctx, c, p, out)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}

	fmt.Printf("# Benchmarks\n\n%s, %d repetitions, %s\n", machine(), c.reps, time.Now().Format(time.DateOnly))
	for _, n := range p.notes {
		fmt.Println("Note:", n)
	}
	r := report.Collect(rows)
	r.WriteTables(os.Stdout)
	for _, f := range r.Failed {
		fmt.Printf("\nFailed: %s %s n=%d: %s\n", f.Impl, f.Scenario, f.N, f.Error)
	}
	for _, l := range r.Left {
		fmt.Printf("\nNot measured, or not all of it: %s %s n=%d: %s\n", l.Impl, l.Scenario, l.N, l.Note)
	}
	if met := r.WriteTargets(os.Stdout); c.strict && (!met || len(r.Failed) > 0) {
		return errors.New("a target is not met, or a measurement failed")
	}
	return nil
}

// latest is the file of the last results.
func latest() string { return filepath.Join("results", "latest.ndjson") }

func machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// writePage writes what a file of results says of fleets to a page, and its image next to it.
func writePage(page, results string) error {
	file, err := os.Open(results)
	if err != nil {
		return err
	}
	defer file.Close()
	rows, err := report.ReadRows(file)
	if err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	measured, err := file.Stat()
	if err != nil {
		return err
	}
	image := strings.TrimSuffix(page, ".md") + ".svg"
	var text, svg bytes.Buffer
	if err := report.Collect(rows).WritePage(&text, &svg, filepath.Base(image),
		machine()+", "+measured.ModTime().Format(time.DateOnly)); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(page, text.Bytes(), 0o644), os.WriteFile(image, svg.Bytes(), 0o644))
}

func create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.Create(path)
}
