package deadline

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-dev/coppice/internal/private"
)

// fileSize is the size of the file, in bytes. Its text ends with spaces, so that it fits where another one was.
const fileSize = 512

// reserveName is the name of a file that takes the place of the other one when a disk is full.
func (w *Writer) reserveName() string { return w.path + ".reserve" }

// findReserve notes whether the reserve of an earlier process can be used.
func (w *Writer) findReserve() {
	text, err := private.ReadSecret(w.reserveName(), fileSize)
	w.hasReserve = err == nil && len(text) == fileSize
}

// replace replaces the file. On a full disk the reserve, which has its room already, gets the text and then the place
// of the file: the agents of a node need not end because a file cannot be written.
func (w *Writer) replace(text []byte) error {
	if len(text) > fileSize {
		return fmt.Errorf("%d bytes; expected at most %d", len(text), fileSize)
	}
	text = append(text, bytes.Repeat([]byte(" "), fileSize-len(text))...)
	err := private.Replace(w.path, text)
	switch {
	case err == nil && !w.hasReserve:
		w.hasReserve = private.Replace(w.reserveName(), text) == nil // else the next time
	case err != nil && w.hasReserve:
		reserveErr := overwrite(w.reserveName(), text)
		if reserveErr == nil {
			reserveErr = exchange(w.reserveName(), w.path)
		}
		if reserveErr == nil {
			return nil
		}
		w.hasReserve = false
		err = errors.Join(err, reserveErr)
	}
	return err
}

// overwrite replaces the content of a file of the same size. No reader is in the middle of it, unless it was paused
// there since the file had the other name, a renewal ago.
func overwrite(name string, text []byte) error {
	f, err := private.OpenFile(name, os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return errors.Join(err, f.Close())
}
