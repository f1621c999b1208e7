// Package spanid derives the IDs of spans from what the spans are about. Each daemon of a project, and each program
// below it, finds the same ID for the same thing without asking another one.
package spanid

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Variable is the environment variable by which a program learns the span that it runs in, as a traceparent of W3C
// Trace Context.
const Variable = "TRACEPARENT"

// ID identifies a span, and the trace that it belongs to. The zero value is no span.
type ID struct {
	Trace [16]byte
	Span  [8]byte
}

// Root returns the ID of the first span of a trace of its own.
func Root(fields ...string) (id ID) {
	sum := digest("trace", fields)
	copy(id.Trace[:], sum[:])
	id.Span = rootSpan(id.Trace)
	return id
}

// rootSpan returns the ID of the first span of a trace. It follows from that of the trace; see IsRoot.
func rootSpan(trace [16]byte) (span [8]byte) {
	sum := digest("root", []string{string(trace[:])})
	copy(span[:], sum[:])
	return span
}

// Child returns the ID of a span below another one.
func (i ID) Child(fields ...string) ID {
	sum := digest("child", append([]string{string(i.Trace[:]), string(i.Span[:])}, fields...))
	copy(i.Span[:], sum[:])
	return i
}

// IsZero reports whether it is no span.
func (i ID) IsZero() bool { return i == ID{} }

// IsRoot reports whether Root has made the ID. One of another program is none.
func (i ID) IsRoot() bool { return i.Span == rootSpan(i.Trace) }

// digest returns a hash of fields that is never all zero, which no ID may be. No fields have the hash of others.
func digest(kind string, fields []string) [sha256.Size]byte {
	h := sha256.New()
	for _, field := range append([]string{"coppice", kind}, fields...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
		h.Write([]byte(field))
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	sum[0] |= 1
	return sum
}

// version and flags of a traceparent: the first version, and that the span is recorded.
const (
	version = "00"
	sampled = "01"
)

// Traceparent returns the ID as programs receive it.
func (i ID) Traceparent() string {
	return fmt.Sprintf("%s-%x-%x-%s", version, i.Trace, i.Span, sampled)
}

// Parse returns the ID of a traceparent of the first version; ok is false if the text is none.
func Parse(text string) (id ID, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || parts[0] != version || len(parts[3]) != len(sampled) || text != strings.ToLower(text) ||
		len(parts[1]) != hex.EncodedLen(len(id.Trace)) || len(parts[2]) != hex.EncodedLen(len(id.Span)) {
		return ID{}, false
	}
	var flags [1]byte
	for _, part := range []struct {
		into []byte
		text string
	}{{id.Trace[:], parts[1]}, {id.Span[:], parts[2]}, {flags[:], parts[3]}} {
		if _, err := hex.Decode(part.into, []byte(part.text)); err != nil {
			return ID{}, false
		}
	}
	if id.Trace == [16]byte{} || id.Span == [8]byte{} {
		return ID{}, false
	}
	return id, true
}

// Incarnation returns the span of an incarnation of an agent. The numbering names a history of numbers: they begin at
// 1 again in another one.
func Incarnation(numbering, path string, incarnation uint64) ID {
	return Root(numbering, "incarnation", path, fmt.Sprint(incarnation))
}

// Attempt returns the span of an attempt at a task by the incarnation in this span.
func (i ID) Attempt(task string, number int) ID { return i.Child("attempt", task, fmt.Sprint(number)) }

// OwnAttempt returns the span of an attempt at a task that no incarnation has made.
func OwnAttempt(numbering, task string, number int) ID {
	return Root(numbering, "attempt", task, fmt.Sprint(number))
}

// Order returns the span of an attempt of a run of an order. Attempts after the first one are below that.
func Order(numbering, run string, attempt int) ID {
	first := Root(numbering, "order", run)
	if attempt <= 1 {
		return first
	}
	return first.Child("attempt", fmt.Sprint(attempt))
}
