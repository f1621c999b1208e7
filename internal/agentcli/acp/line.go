package acp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

var errLineTooLong = fmt.Errorf("the agent has written a line of more than %d MiB", maxLine>>20)

// lineReader reads lines of at most maxLine bytes.
type lineReader struct {
	r    *bufio.Reader
	line []byte
}

// next returns the next line without its end. It is valid until the next call. The last line may have no end;
// it comes together with the error that has ended it.
func (l *lineReader) next() ([]byte, error) {
	if l.line = l.line[:0]; cap(l.line) > 1<<20 {
		l.line = nil
	}
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.line)+len(part) > maxLine+1 { // with its end
			return nil, errLineTooLong
		}
		l.line = append(l.line, part...)
		switch {
		case err == nil:
			return l.line[:len(l.line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(l.line) > maxLine:
			return nil, errLineTooLong
		default:
			return l.line, err
		}
	}
}

// decode parses a message into v, and reports whether it is JSON. A field of an unexpected type is ignored.
func decode(text []byte, v any) bool {
	err := json.Unmarshal(text, v)
	_, typed := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || typed
}

// maxName bounds names and IDs that the agent gives things, in bytes.
const maxName = 300

// clip returns a name or ID as a line of bounded length.
func clip(text string) string { return clipTo(text, maxName) }

func clipTo(text string, limit int) string { return plaintext.OneLine(text, limit) }
