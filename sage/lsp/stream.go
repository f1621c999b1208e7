package lsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The largest message that is read; a whole file of a program, with every
// character escaped, fits in.
const maxMessage = 128 << 20

// maxHeader is the longest line of a header that is kept.
const maxHeader = 4096

// stream carries messages as the protocol frames them: a header with their
// length, an empty line, the message. It survives input that is no message: the
// server answers that with an error.
type stream struct {
	r *bufio.Reader
	w io.Writer
}

// notJSON stands for a message that cannot be read; the server answers it with an
// error.
var notJSON = []byte("?")

// Send writes a message.
func (c *stream) Send(message []byte) error {
	frame := make([]byte, 0, len(message)+32)
	frame = fmt.Appendf(frame, "Content-Length: %d\r\n\r\n", len(message))
	_, err := c.w.Write(append(frame, message...))
	return err
}

// Recv returns the next message. The error is that of the reader.
func (c *stream) Recv() ([]byte, error) {
	length, known := 0, false
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 48)
			length, known = int(n), err == nil
		}
	}
	switch {
	case !known:
		return notJSON, nil
	case length > maxMessage:
		_, err := io.CopyN(io.Discard, c.r, int64(length))
		return notJSON, err
	}
	// Not all at once: a length is only a promise.
	var message strings.Builder
	if _, err := io.CopyN(&message, c.r, int64(length)); err != nil {
		return nil, err
	}
	return []byte(message.String()), nil
}

// line is the next line of a header, as far as it is of use.
func (c *stream) line() (string, error) {
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		if len(line)+len(part) <= maxHeader {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return "", err
		}
		return strings.TrimRight(string(line), "\r\n"), nil
	}
}
