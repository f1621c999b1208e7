package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// message is a message of a stream of server-sent events.
type message struct {
	id   string // the last id, set by this message or an earlier one
	name string // "" for an item
	data []byte // without line ends, as JSON is
}

// bytes returns the encoded message.
func (m message) bytes() []byte {
	b := make([]byte, 0, len(m.data)+len(m.id)+len(m.name)+24)
	if m.id != "" {
		b = append(append(append(b, "id: "...), m.id...), '\n')
	}
	if m.name != "" {
		b = append(append(append(b, "event: "...), m.name...), '\n')
	}
	return append(append(append(b, "data: "...), m.data...), "\n\n"...)
}

// maxMessage is the maximum length of a message, in bytes: more than any event has.
const maxMessage = 16 << 20

var errMessageTooLong = errors.New("a message of the stream has more than 16 MiB")

// readMessages yields the messages of a stream as specified by the HTML standard (9.2.6). Lines
// end with CR, LF or both. Comments and unknown fields are ignored. A message that is not
// followed by an empty line was cut off and is dropped. The error of the reader is the last item,
// including io.EOF.
func readMessages(r io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		in := lineReader{in: bufio.NewReaderSize(r, 32<<10)}
		var m message
		data, size := []byte(nil), 0
		for first := true; ; first = false {
			line, err := in.next()
			if err != nil {
				yield(message{}, err)
				return
			}
			if first {
				line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
			}
			if len(line) == 0 {
				if data != nil {
					m.data = data[:len(data)-1] // without the last line end
					if !yield(m, nil) {
						return
					}
				}
				m, data, size = message{id: m.id}, nil, 0
				continue
			}
			if size += len(line); size > maxMessage {
				yield(message{}, errMessageTooLong)
				return
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "data":
				data = append(append(data, value...), '\n')
			case "event":
				m.name = string(value)
			case "id":
				if bytes.IndexByte(value, 0) < 0 {
					m.id = string(value)
				}
			}
		}
	}
}

// lineReader reads lines that end with CR, LF or CR LF. It returns a line as soon as its first
// end character arrives: a stream may be silent for long after it.
type lineReader struct {
	in *bufio.Reader
	cr bool // the last line ended with CR; an LF that follows belongs to it
	b  []byte
}

// next returns a line without its end, valid until the next call. It drops text after the last
// line end.
func (l *lineReader) next() ([]byte, error) {
	l.b = l.b[:0]
	for {
		if _, err := l.in.Peek(1); err != nil {
			return nil, err
		}
		chunk, _ := l.in.Peek(l.in.Buffered())
		if l.cr && chunk[0] == '\n' {
			l.cr = false
			l.in.Discard(1)
			continue
		}
		l.cr = false
		end := bytes.IndexByte(chunk, '\n')
		before := chunk
		if end >= 0 {
			before = chunk[:end]
		}
		if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
			end = cr
		}
		if end < 0 {
			l.b = append(l.b, chunk...)
			l.in.Discard(len(chunk))
			if len(l.b) > maxMessage {
				return nil, errMessageTooLong
			}
			continue
		}
		l.b = append(l.b, chunk[:end]...)
		l.cr = chunk[end] == '\r'
		l.in.Discard(end + 1)
		return l.b, nil
	}
}
