package lsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxMessage is the largest accepted message. It has room for a whole source file with every
// character escaped.
const maxMessage = 128 << 20

// maxHeader is the longest accepted header line.
const maxHeader = 4096

// stream reads and writes messages in the framing of the protocol: a header with the length, an
// empty line and the message. Malformed input does not end it. The server answers that with an
// error.
type stream struct {
	r *bufio.Reader
	w io.Writer
}

// notJSON replaces a message that cannot be read. The server answers it with an error.
var notJSON = []byte("?")

// Send writes a message.
func (c *stream) Send(message []byte) error {
	frame := make([]byte, 0, len(message)+32)
	frame = fmt.Appendf(frame, "Content-Length: %d\r\n\r\n", len(message))
	_, err := c.w.Write(append(frame, message...))
	return err
}

// Recv returns the next message. Its error is that of the reader.
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
	// Allocate as the data arrives, because the header may announce more than follows.
	var message strings.Builder
	if _, err := io.CopyN(&message, c.r, int64(length)); err != nil {
		return nil, err
	}
	return []byte(message.String()), nil
}

// line returns the next header line, truncated to maxHeader.
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
