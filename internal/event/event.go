// Package event records what happens in an append-only log in the store. Each event has a number
// that is unique across all writers. A reader can ask for the events after number 120 and neither
// miss nor repeat one.
package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/store"
)

// Bounds on one event. Longer values are cut, and Truncated counts the bytes. Together they fit
// into one value of the store even if JSON needs six bytes for one.
const (
	MaxData    = 512 << 10 // bytes of Data
	MaxMessage = 64 << 10  // bytes of Message
	MaxName    = 1 << 10   // bytes of Path and Actor
)

// Event is something that happened. Its JSON form is stored, and printed by every stream, one
// object per line. The names of the fields never change.
type Event struct {
	_ struct{} `open:"true" doc:"Something that happened. Later versions may add fields."`

	// Seq is the number of the event in the log, from 1. The log sets it.
	Seq uint64 `json:"seq,omitempty" doc:"Its number in the log; no other event has it."`
	// Epoch names the log in which Seq counts. It changes when the log is restored or created
	// again. Log.Events sets it.
	Epoch string `json:"epoch,omitempty" doc:"Names the log in which seq counts. A log that was restored or made again has another one."`
	// Time is the time at which it happened, not at which it was written. Append sets it if it is
	// zero.
	Time time.Time `json:"time" doc:"When it happened."`
	// Type is one of the Catalogue. Readers must expect types of other versions.
	Type Type `json:"type" doc:"A dotted name, such as agent.crashed. Readers must expect names that they do not know."`
	// Path is the node of the tree that the event is about.
	Path string `json:"path,omitempty" doc:"The node that it is about."`
	// Incarnation is the number of the incarnation that the event is about.
	Incarnation uint64 `json:"incarnation,omitempty" doc:"The life of the agent that it is about."`
	// Actor caused the event: "patrol", "user", or the path of an agent.
	Actor string `json:"actor,omitempty" doc:"Who did it."`
	// Message is one line for people.
	Message string `json:"message,omitempty" doc:"One line for people."`
	// Data is one JSON value for programs; its shape depends on Type.
	Data json.RawMessage `json:"data,omitempty" doc:"What programs want to know; its shape depends on the type."`
	// Truncated is the number of bytes that were cut from Message and Data.
	Truncated int `json:"truncated,omitempty" minimum:"0" doc:"How many bytes were cut from message and data."`

	// Extra holds fields that this version does not know, to preserve them when the event is
	// written again.
	Extra map[string]json.RawMessage `json:"-"`
}

// Text returns the message without the name of its subject, for places that show the name
// already. Messages begin with the path of a node, or with "order" and the name of an order.
func (e Event) Text() string {
	if e.Path == "" {
		return e.Message
	}
	if name, ok := strings.CutPrefix(e.Path, "orders/"); ok {
		return strings.TrimPrefix(e.Message, "order "+name+" ")
	}
	return strings.TrimPrefix(e.Message, e.Path+" ")
}

// With returns the event with v as its data. If v cannot be encoded, the data is {"error":
// reason}: an event is never lost because of its data.
func (e Event) With(v any) Event {
	data, err := json.Marshal(v)
	if err != nil {
		data, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	e.Data = data
	return e
}

// Decode stores the event's data into v, like json.Unmarshal.
func (e Event) Decode(v any) error {
	if len(e.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("data of event %d (%s): %w", e.Seq, e.Type, err)
	}
	return nil
}

// String returns the event as one line for people.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Time.Format(time.RFC3339), e.Type)
	if e.Path != "" {
		fmt.Fprintf(&b, " %s", e.Path)
	}
	if e.Incarnation != 0 {
		fmt.Fprintf(&b, "#%d", e.Incarnation)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	return b.String()
}

// fields returns the fields of an event by their names in JSON.
func (e *Event) fields() map[string]any {
	return map[string]any{
		"seq": &e.Seq, "epoch": &e.Epoch, "time": &e.Time, "type": &e.Type, "path": &e.Path,
		"incarnation": &e.Incarnation, "actor": &e.Actor, "message": &e.Message, "data": &e.Data,
		"truncated": &e.Truncated,
	}
}

// plain is Event without its methods.
type plain Event

// MarshalJSON writes the known fields in their order, then the others. It accepts any event:
// invalid JSON in Data or Extra is written as a string.
func (e Event) MarshalJSON() ([]byte, error) {
	e.Data = valid(e.Data)
	out, err := encode(plain(e))
	if err != nil {
		// The year of the time does not fit RFC 3339.
		e.Time = time.Time{}
		if out, err = encode(plain(e)); err != nil {
			return nil, err
		}
	}
	if len(e.Extra) == 0 {
		return out, nil
	}
	known, extra := e.fields(), make(map[string]json.RawMessage)
	for name, v := range e.Extra {
		if v = valid(v); known[name] == nil && v != nil {
			extra[name] = v
		}
	}
	if len(extra) == 0 {
		return out, nil
	}
	more, err := encode(extra) // sorted by name
	if err != nil {
		return nil, err
	}
	out[len(out)-1] = ','
	return append(out, more[1:]...), nil
}

// encode is json.Marshal without escaping HTML, which would make the text of agents six times as
// long.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// valid returns v if it is JSON, nil if it is empty, and otherwise a JSON string with its bytes
// as valid UTF-8.
func valid(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return nil
	}
	if v = bytes.ToValidUTF8(v, []byte("\uFFFD")); json.Valid(v) {
		return v
	}
	text, _ := encode(string(v))
	return text
}

// UnmarshalJSON reads an event of this version or a later one. If the value of a known field has
// an unexpected form, it is kept in Extra under the name followed by "?", and the other fields
// are read.
func (e *Event) UnmarshalJSON(data []byte) error {
	if e.parse(data) {
		return nil
	}
	return e.unmarshal(data)
}

// unmarshal is UnmarshalJSON for all forms of an event.
func (e *Event) unmarshal(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("an event must be a JSON object: %w", err)
	}
	if fields == nil {
		return fmt.Errorf("an event must be a JSON object, not null")
	}
	*e = Event{}
	known := e.fields()
	for name, raw := range fields {
		if field := known[name]; field != nil {
			if string(raw) == "null" || json.Unmarshal(raw, field) == nil {
				continue
			}
			name += "?"
		}
		if e.Extra == nil {
			e.Extra = map[string]json.RawMessage{}
		}
		e.Extra[name] = raw
	}
	return nil
}

// record returns the stored form of a normalised event.
func (e Event) record() []byte {
	value, err := e.MarshalJSON()
	if err != nil || len(value) > store.MaxValue {
		e.Extra = nil // the only part without a bound of its own
		value, _ = e.MarshalJSON()
	}
	return value
}

// WriteNDJSON writes the event and a newline, in one Write.
func WriteNDJSON(w io.Writer, e Event) error {
	line, err := e.MarshalJSON()
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// normalise prepares an event for storage: with a declared type, valid, bounded, and with a time.
func (e Event) normalise(now time.Time) Event {
	e.Seq, e.Epoch = 0, ""
	if e.Time.IsZero() {
		e.Time = now
	}
	e.Time = e.Time.UTC().Round(0)
	if !e.Type.Declared() { // nothing else is ever stored
		e.Type = Unnamed
	}
	e.Path = cut(e.Path, MaxName, nil)
	e.Actor = cut(e.Actor, MaxName, nil)
	e.Message = cut(e.Message, MaxMessage, &e.Truncated)
	e.Data = valid(bytes.Clone(e.Data))
	if len(e.Data) > MaxData {
		// Keep the beginning of the data as a string, which quoting may make twice as long.
		e.Truncated += len(e.Data)
		for n := MaxData / 2; ; n /= 2 {
			kept := cut(string(e.Data), n, nil)
			if text, _ := encode(kept); len(text) <= MaxData {
				e.Truncated -= len(kept)
				e.Data = text
				break
			}
		}
	}
	return e
}

// cut returns valid UTF-8 of at most n bytes, and adds the number of removed bytes to lost.
func cut(s string, n int, lost *int) string {
	short := s
	if len(short) > n {
		short = short[:n]
		for i := 0; i < utf8.UTFMax && len(short) > 0; i++ { // not in the middle of a character
			if r, size := utf8.DecodeLastRuneInString(short); r != utf8.RuneError || size != 1 {
				break
			}
			short = short[:len(short)-1]
		}
	}
	if lost != nil {
		*lost += len(s) - len(short)
	}
	if !utf8.ValidString(short) {
		short = strings.ToValidUTF8(short, "\uFFFD")
		if len(short) > n {
			return cut(short, n, nil)
		}
	}
	return short
}
