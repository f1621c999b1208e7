package check

import (
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// Config gives a program access to what is outside of its first file. The zero
// Config is for programs of one file.
type Config struct {
	// Load finds the file of a module that parent declares with mod name. Its
	// error is told with what it says, such as where it was looked for. The
	// text may come from anywhere.
	Load func(parent *Module, name string) (*source.File, error)

	// Processes are the names of the agents in the project's file, which can be
	// children by their name in quotes.
	Processes []string
}

// Program reads and checks the program whose first file is given. The
// diagnostics, at most 100, are in the order of the text, those of the first
// file first.
func Program(file *source.File, config Config) (*Info, []diag.Diagnostic) {
	size := len(file.Text) // there is about one expression in seven bytes
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
	malformed   map[*source.File]bool // files that have errors of form

	open      []syntax.Expr // whose type was not known when it was recorded
	agents    map[*Object]*Agent
	supers    map[*Object]*Supervisor
	agentsOf  map[*types.Decl]*Agent
	records   map[*types.Decl]*Object
	enums     map[*types.Decl]*Object
	processes map[string]*syntax.StringLit // that are children
	captured  map[capture]bool
	depth     int // of agents that are checked because others await them
	current   *body
}

// finish makes all types known, and puts what was found in order.
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

// declared remembers which record or enum a type is.
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

// fault reports an error; format may be followed by what it is filled with.
func (c *checker) fault(at syntax.Node, code, help, format string, args ...any) {
	c.report(diag.Diagnostic{Span: at.Extent(), Code: code, Message: fmt.Sprintf(format, args...), Help: help})
}

// invalid reports an error, and returns the type of what is wrong.
func (c *checker) invalid(at syntax.Node, code, help, format string, args ...any) *types.Type {
	c.fault(at, code, help, format, args...)
	return types.Of(types.Invalid)
}

func (c *checker) warn(at syntax.Node, code, help, format string, args ...any) {
	c.report(diag.Diagnostic{Span: at.Extent(), Code: code, Severity: diag.Warning,
		Message: fmt.Sprintf(format, args...), Help: help})
}

// duplicate reports that something is there for the second time.
func (c *checker) duplicate(at syntax.Node, code string, first source.Span, help, format string, args ...any) {
	d := diag.Diagnostic{Span: at.Extent(), Code: code, Message: fmt.Sprintf(format, args...), Help: help}
	if first.Valid() {
		d.Related = []diag.Related{{Span: first, Message: "the first one is here"}}
	}
	c.report(d)
}

// truncate is a word that may be long, short.
func truncate(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
