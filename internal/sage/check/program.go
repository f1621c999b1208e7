package check

import (
	"github.com/coppice-dev/coppice/internal/sage/diag"
	"github.com/coppice-dev/coppice/internal/sage/source"
	"github.com/coppice-dev/coppice/internal/sage/syntax"
	"github.com/coppice-dev/coppice/internal/sage/types"
)

// Config is what a program can refer to outside of its first file. The zero
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
// diagnostics are in the order of the text, those of the first file first.
func Program(file *source.File, config Config) (*Info, []diag.Diagnostic) {
	c := &checker{
		config: config,
		info: &Info{
			Types:    map[syntax.Expr]*types.Type{},
			Defs:     map[*syntax.Ident]*Object{},
			Uses:     map[*syntax.Ident]*Object{},
			Unwraps:  map[syntax.Expr]bool{},
			Captures: map[*syntax.ClosureExpr][]*Object{},
		},
	}
	return c.info, c.diagnostics
}

type checker struct {
	config      Config
	info        *Info
	diagnostics []diag.Diagnostic
}

type use struct{}
type body struct{}
