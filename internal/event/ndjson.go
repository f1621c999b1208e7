package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxLine is the longest line that ReadNDJSON takes, in bytes. No event that
// was stored comes near it.
const MaxLine = 8 << 20

// LineError says which line of a stream is no event.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// WriteNDJSON writes the event and a newline, in one Write.
func WriteNDJSON(w io.Writer, e Event) error {
	line, err := e.MarshalJSON()
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// ReadNDJSON yields the events of a stream of lines. A line that is no event
// yields a *LineError and costs only itself; so does one that is longer than
// MaxLine, or cut off by the end of the stream. Empty lines are skipped. An error of
// the reader is the last thing yielded.
func ReadNDJSON(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			line, long, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Event{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if long || len(line) > 0 {
				var e Event
				lineErr := errors.New("longer than 8 MiB")
				if !long {
					lineErr = json.Unmarshal(line, &e)
				}
				if lineErr != nil {
					e, lineErr = Event{}, &LineError{Line: n, Err: lineErr}
				}
				if !yield(e, lineErr) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
		}
	}
}

// readLine reads up to the next newline, without it. Of a line that is too
// long it keeps nothing.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > MaxLine+1 {
			line, long = nil, true
		}
		if !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		return line, long, err
	}
}
