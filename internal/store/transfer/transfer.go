// Package transfer copies the content of a store into another kind of store, and then verifies the
// copy.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/coppice-dev/coppice/internal/store"
)

// ErrDiffers is returned if a copy is not the same as the original.
var ErrDiffers = errors.New("the copy is not the same as the original")

// Target is an empty store that a copy is written to, and then read again.
type Target interface {
	store.Importer
	store.Exporter
}

// Report describes a copy that was verified.
type Report struct {
	Records   int      `json:"records"`
	Sequences int      `json:"sequences"` // counters of appended records
	Epoch     uint64   `json:"epoch"`     // of the last lease
	Bytes     int64    `json:"bytes"`     // of all keys and values
	SHA256    string   `json:"sha256"`    // of keys, values and sequences, in hexadecimal digits
	Damaged   []string `json:"damaged"`   // keys of damaged records that were left out, at most MaxDamaged
}

// MaxDamaged is the number of damaged records from which on their keys are not known.
const MaxDamaged = 100

// Stage is a part of a copy.
type Stage uint8

// The stages in their order. Each reads everything.
const (
	Copying Stage = iota
	RereadingOriginal
	ReadingCopy
)

// Progress is a point in a copy.
type Progress struct {
	Stage   Stage
	Records int // so far in this stage
	Bytes   int64
}

// progressStep is the number of entries after which progress is reported.
const progressStep = 256

// Copy copies everything from a store to an empty one. Then it reads both again and compares them;
// the error is ErrDiffers if they are not the same, also because the original was written to
// meanwhile. Otherwise an error of the copy leaves an empty store, as Import says, and one of the
// verification leaves a store that is not verified.
//
// If Import does not know its outcome, the verification finds it out.
//
// progress is called often, from the goroutine of the caller.
func Copy(ctx context.Context, from store.Exporter, to Target, progress func(Progress)) (Report, error) {
	read := newDigest()
	unknown := to.Import(ctx, read.all(from.Export(ctx), Copying, progress))
	if unknown != nil && !errors.Is(unknown, store.ErrUnknown) {
		return Report{}, unknown
	}
	original, err := digestOf(ctx, from, RereadingOriginal, progress)
	if err != nil {
		return Report{}, fmt.Errorf("verifying the copy: reading the original again: %w", err)
	}
	copied, err := digestOf(ctx, to, ReadingCopy, progress)
	if err != nil {
		return Report{}, fmt.Errorf("verifying the copy: %w", err)
	}
	if unknown != nil && copied.entries == 0 && original.entries > 0 {
		return Report{}, fmt.Errorf("nothing was written: %w", unknown)
	}
	if unknown == nil { // otherwise the import may have stopped to read before the end
		if what := read.differs(original); what != "" {
			return Report{}, fmt.Errorf("%w: the original has changed meanwhile (%s)", ErrDiffers, what)
		}
	}
	if what := copied.differs(original); what != "" {
		return Report{}, fmt.Errorf("%w: %s", ErrDiffers, what)
	}
	r := original.report()
	if from, ok := from.(interface{ Damaged() []string }); ok {
		r.Damaged = append(r.Damaged, from.Damaged()...)
	}
	return r, nil
}

// digestOf reads a whole store.
func digestOf(ctx context.Context, s store.Exporter, stage Stage, progress func(Progress)) (*digest, error) {
	d := newDigest()
	for _, err := range d.all(s.Export(ctx), stage, progress) {
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// all yields entries, and adds them to the digest.
func (d *digest) all(entries iter.Seq2[store.Entry, error], stage Stage,
	progress func(Progress)) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				d.add(e)
			}
			if d.entries%progressStep == 0 {
				progress(Progress{Stage: stage, Records: d.records, Bytes: d.bytes})
			}
			if !yield(e, err) {
				return
			}
		}
		progress(Progress{Stage: stage, Records: d.records, Bytes: d.bytes})
	}
}
