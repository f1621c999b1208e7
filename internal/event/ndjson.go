package event

import (
	"fmt"
	"io"
)

// WriteNDJSON writes the event and a newline, in one Write.
func WriteNDJSON(w io.Writer, e Event) error {
	line, err := e.MarshalJSON()
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
