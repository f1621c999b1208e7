package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// Config connects a program to what is outside of its first file. The zero Config is for programs
// of one file.
type Config struct {
	// Load reads the file of a module that parent declares with mod name. The text may come from
	// anywhere. Its error is part of the diagnostic, and should tell where the file was looked for.
	Load func(parent *Module, name string) (*source.File, error)

	// Processes are the names of the agents in the project's file. A child can refer to one by its
	// name in quotes.
	Processes []string
}

// Program parses and checks the program with this first file. It returns at most 100 errors. The
// diagnostics are in source order, those of the first file first.
func Program(file *source.File, config Config) (*Info, []diag.Diagnostic) {
	size := len(file.Text) // about one expression per seven bytes
	c := &checker{
		config:   config,
		universe: sharedUniverse(),
		info: &Info{
			Types:    make(map[syntax.Expr]*types.Type, size/7),
			Defs:     make(map[*syntax.Ident]*Object, size/40),
			Uses:     make(map[*syntax.Ident]*Object, size/12),
			Unwraps:  map[syntax.Expr]bool{},
			Captures: map[*syntax.ClosureExpr][]*Object{},
		},
		malformed: map[*source.File]bool{},
		agents:    map[*Object]*Agent{},
		supers:    map[*Object]*Supervisor{},
		processes: map[string]*syntax.StringLit{},
		captured:  map[capture]bool{},
		records:   map[*types.Decl]*Object{},
		enums:     map[*types.Decl]*Object{},
		agentsOf:  map[*types.Decl]*Agent{},
	}
	for _, o := range c.universe.names {
		c.declared(o)
	}
	c.module(file, nil, nil)
	c.resolveUses()
	c.declare()
	c.bodies()
	c.finish()
	return c.info, c.diagnostics
}

type checker struct {
	config      Config
	universe    *universe
	info        *Info
	diagnostics []diag.Diagnostic
	errors      int
	malformed   map[*source.File]bool // files with syntax errors

	open      []syntax.Expr // whose type was unknown when recorded
	agents    map[*Object]*Agent
	supers    map[*Object]*Supervisor
	agentsOf  map[*types.Decl]*Agent
	records   map[*types.Decl]*Object
	enums     map[*types.Decl]*Object
	processes map[string]*syntax.StringLit // agents of the project's file that are children
	captured  map[capture]bool
	depth     int // of agents checked because others await them
	current   *body
}

// finish closes all types and sorts the diagnostics.
func (c *checker) finish() {
	for _, x := range c.open {
		c.info.Types[x] = types.Close(c.info.Types[x])
	}
	for _, o := range c.info.Defs {
		if o.Type != nil {
			o.Type = types.Close(o.Type)
		}
	}
	c.lint()
	order := map[*source.File]int{}
	for i, m := range c.info.Modules {
		order[m.File] = i
	}
	slices.SortStableFunc(c.diagnostics, func(a, b diag.Diagnostic) int {
		if a.Span.File != b.Span.File {
			return order[a.Span.File] - order[b.Span.File]
		}
		return int(a.Span.Start - b.Span.Start)
	})
}

// declared records the object of a record or enum type.
func (c *checker) declared(o *Object) {
	switch o.Kind {
	case RecordName:
		c.records[o.Type.Decl] = o
	case EnumName:
		c.enums[o.Type.Decl] = o
	}
}

func (c *checker) report(d diag.Diagnostic) {
	if d.Severity == diag.Error {
		if c.errors++; c.errors > maxDiagnostics {
			return
		}
	} else if len(c.diagnostics) >= 2*maxDiagnostics {
		return
	}
	c.diagnostics = append(c.diagnostics, d)
}

// fault reports an error.
func (c *checker) fault(at syntax.Node, code, help, format string, args ...any) {
	c.report(diag.Diagnostic{Span: at.Extent(), Code: code, Message: fmt.Sprintf(format, args...), Help: help})
}

// invalid reports an error and returns the type Invalid.
func (c *checker) invalid(at syntax.Node, code, help, format string, args ...any) *types.Type {
	c.fault(at, code, help, format, args...)
	return types.Of(types.Invalid)
}

func (c *checker) warn(at syntax.Node, code, help, format string, args ...any) {
	c.report(diag.Diagnostic{Span: at.Extent(), Code: code, Severity: diag.Warning,
		Message: fmt.Sprintf(format, args...), Help: help})
}

// duplicate reports something that occurs a second time.
func (c *checker) duplicate(at syntax.Node, code string, first source.Span, help, format string, args ...any) {
	d := diag.Diagnostic{Span: at.Extent(), Code: code, Message: fmt.Sprintf(format, args...), Help: help}
	if first.Valid() {
		d.Related = []diag.Related{{Span: first, Message: "the first one is here"}}
	}
	c.report(d)
}

// truncate shortens a word for a message.
func truncate(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
