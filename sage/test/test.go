// Package test runs the tests of Sage programs.
package test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/tools"
)

// Options select the tests to run and receive their results.
type Options struct {
	// Path is the path on the command line. If it is a file, only the tests of that file run.
	Path string
	// Filter selects the tests whose file::name contains this text.
	Filter string

	Result  func(eval.TestResult)
	Invalid func([]diag.Diagnostic) // a program has errors
	Failed  func(error)             // a program cannot be read or run
}

// Run runs the tests of programs one after the other until ctx ends. A file that belongs to
// several programs is tested once.
func Run(ctx context.Context, programs []*load.Program, o Options) {
	tested := map[string]bool{}
	for _, p := range programs {
		if ctx.Err() == nil && !tested[p.Name(p.Entry)] {
			o.program(ctx, p, tested)
		}
	}
}

func (o Options) program(ctx context.Context, p *load.Program, tested map[string]bool) {
	only := ""
	if info, err := os.Stat(o.Path); err == nil && !info.IsDir() {
		only = p.Name(p.Entry)
	}
	p, info, diagnostics, err := p.CheckProject()
	if err != nil {
		o.Failed(err)
		return
	}
	if diag.HasErrors(diagnostics) {
		o.Invalid(diagnostics)
		return
	}
	program, err := eval.Load(info)
	if err != nil {
		o.Failed(fmt.Errorf("%s: %w", p.Name(p.Entry), err))
		return
	}
	settings := eval.Options{Tools: tools.Settings{Root: p.Root, Dir: p.Root}}
	timeout := eval.DefaultTestTimeout
	if p.Settings != nil {
		settings.Limit, timeout = p.Settings.Limit, p.Settings.TestTimeout
	}
	for i, test := range info.Tests {
		file := test.Position().Name
		switch {
		case tested[file], only != "" && file != only, !strings.Contains(file+"::"+test.Name.Value, o.Filter):
			continue
		case ctx.Err() != nil:
			return
		}
		o.Result(program.Test(ctx, i, settings, timeout))
	}
	for _, m := range info.Modules {
		tested[m.File.Name] = true
	}
}
