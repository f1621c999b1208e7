package fakeagent

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"
)

// object is an object of JSON.
type object map[string]any

// output writes the stream, standard error and the file of the session.
type output struct {
	out, err io.Writer
	session  *os.File // nil if the command line keeps none
	stream   bool     // objects go to out
	pieces   bool     // lines arrive in pieces
	now      func() time.Time
}

// piecePause is the time between two pieces of a line.
const piecePause = 5 * time.Millisecond

// emit writes an object of the stream.
func (o *output) emit(v object) {
	if o.stream {
		o.line(o.out, v)
	}
}

// keep writes a line into the file of the session.
func (o *output) keep(v object) {
	if o.session != nil {
		o.line(o.session, v)
	}
}

// line writes an object as a line. A reader that is gone is no error of the model.
func (o *output) line(w io.Writer, v object) {
	rest := encode(v)
	if o.pieces && w != o.session {
		for _, part := range []int{1, len(rest) / 3, len(rest) / 3} {
			io.WriteString(w, rest[:part])
			rest = rest[part:]
			<-time.After(piecePause)
		}
	}
	io.WriteString(w, rest)
}

// encode returns an object as a line of JSON. Its type comes first, as in most of what was recorded.
func encode(v object) string {
	kind, typed := v["type"].(string)
	if typed {
		v = maps.Clone(v)
		delete(v, "type")
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil { // all values are texts, numbers and objects of these
		return ""
	}
	switch {
	case !typed:
		return text.String()
	case len(v) == 0:
		return fmt.Sprintf("{\"type\":%q}\n", kind)
	}
	return fmt.Sprintf(`{"type":%q,%s`, kind, text.String()[1:])
}

// say writes a line to standard error.
func (o *output) say(line string) { io.WriteString(o.err, line+"\n") }

// print writes a line to standard output.
func (o *output) print(line string) { io.WriteString(o.out, line+"\n") }

// stamp returns the current time as the command lines write it.
func (o *output) stamp() string { return o.now().UTC().Format("2006-01-02T15:04:05.000Z") }
