// Package guest runs the Sage program of a daemon in a process of its own. The daemon has the
// supervisors of the program; this process has its agents, as functions of a shim.
package guest

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/load"
)

// Bundle is a program with all that its process needs. The files of the program may change while it
// runs, so their texts are part of it.
type Bundle struct {
	Top     string // path of the topmost supervisor of the program, in the tree of the daemon
	Program load.Program
	Texts   load.Overlay
	Memory  int64 // bytes that the process may use; 0 means any
}

// NewBundle returns the bundle of a program that was checked without errors.
func NewBundle(top string, p *load.Program, info *check.Info, memory int64) *Bundle {
	b := &Bundle{Top: top, Program: *p, Texts: load.Overlay{}, Memory: memory}
	for i, file := range p.Files(info) {
		b.Texts[file] = info.Modules[i].File.Text
	}
	return b
}

// Encode returns the bundle as bytes.
func (b *Bundle) Encode() ([]byte, error) { return json.Marshal(b) }

// maxBundle bounds a bundle in bytes.
const maxBundle = 1 << 30

// decode reads a bundle.
func decode(r io.Reader) (*Bundle, error) {
	b := new(Bundle)
	if err := json.NewDecoder(io.LimitReader(r, maxBundle)).Decode(b); err != nil {
		return nil, fmt.Errorf("reading the bundle of the program: %w", err)
	}
	return b, nil
}

// check checks the program again, which it has passed in the daemon.
func (b *Bundle) check() (*check.Info, error) {
	info, diagnostics, err := b.Program.CheckTexts(b.Texts)
	if err != nil {
		return nil, err
	}
	if diag.HasErrors(diagnostics) {
		return nil, fmt.Errorf("%s is not valid: %s", b.Program.Name(b.Program.Entry), diagnostics[0].Message)
	}
	return info, nil
}
