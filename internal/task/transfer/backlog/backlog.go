// Package backlog reads the task files of GLITCHLAB: .glitchlab/tasks/backlog.yaml, and files of one
// task. It makes beads of their tasks, which are checked and imported as those of a file of beads.
package backlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/transfer"
)

// MaxFile bounds a file in bytes.
const MaxFile = 8 << 20

// maxErrors bounds the errors that are reported.
const maxErrors = 100

// place is a position in the file, from 1.
type place struct{ line, column int }

// reader collects the errors of a file.
type reader struct {
	name  string
	wrong []error
	more  int // errors that are not in wrong
}

func (r *reader) errorf(at place, format string, args ...any) {
	r.add(&transfer.LineError{
		File: r.name, Line: at.line, Column: at.column,
		Err: fmt.Errorf("%w: "+format, append([]any{task.ErrInvalid}, args...)...),
	})
}

func (r *reader) add(err error) {
	if len(r.wrong) == maxErrors {
		r.more++
		return
	}
	r.wrong = append(r.wrong, err)
}

// err returns all errors, nil if there is none.
func (r *reader) err() error {
	if r.more > 0 {
		return errors.Join(append(r.wrong, fmt.Errorf("and %d more", r.more))...)
	}
	return errors.Join(r.wrong...)
}

// ReadPlan reads and checks a file as a whole. The error joins up to 100, each with its place in the
// file.
func ReadPlan(name string, file io.ReaderAt, size int64) (*transfer.Plan, error) {
	if size > MaxFile {
		return nil, fmt.Errorf("%s:1:1: %w: the file has %d bytes, at most %d are allowed; divide it", name,
			task.ErrInvalid, size, MaxFile)
	}
	data, err := io.ReadAll(io.NewSectionReader(file, 0, size))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	r := &reader{name: name}
	items := r.items(r.parse(data))
	r.link(items)
	if err := r.err(); err != nil {
		return nil, err
	}
	// Each bead is in the line in which its task begins, so that errors about it name that line.
	var beads bytes.Buffer
	columns := map[int]int{}
	line := 1
	for _, i := range items {
		for ; line < i.at.line; line++ {
			beads.WriteByte('\n')
		}
		bead, err := json.Marshal(i.bead)
		if err != nil {
			return nil, fmt.Errorf("%s:%d:%d: %w", name, i.at.line, i.at.column, err)
		}
		beads.Write(bead)
		columns[line] = i.at.column
	}
	text := bytes.NewReader(beads.Bytes())
	plan, err := transfer.ReadPlan(name, text, text.Size(), func(e *transfer.LineError) {
		e.Column = columns[e.Line]
		r.add(e)
	})
	if err == nil {
		err = r.err()
	}
	if err != nil {
		return nil, err
	}
	return plan, nil
}
