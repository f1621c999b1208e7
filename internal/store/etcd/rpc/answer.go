package rpc

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxItems bounds the keys, events or operations of one answer: each may have 2 bytes in the message, and takes 30
// times as much memory.
const maxItems = 1 << 17

func tooMany(what string) error { return fmt.Errorf("more than %d %s", maxItems, what) }

// LeaseID is the ID of a lease of etcd.
type LeaseID int64

// Header is in all answers.
type Header struct {
	Revision int64  // of the keys
	Term     uint64 // of the leader
}

func (h *Header) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.isInt(3):
			h.Revision = int64(r.n)
		case r.isInt(4):
			h.Term = r.n
		}
	}
	return r.err
}

// KeyValue is a key with its value.
type KeyValue struct {
	Key      string
	Value    []byte
	Revision int64 // at which it was last changed
	Lease    LeaseID
}

func (kv *KeyValue) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.isBytes(1):
			kv.Key = string(r.data)
		case r.isInt(3):
			kv.Revision = int64(r.n)
		case r.isBytes(5):
			kv.Value = bytes.Clone(r.data)
		case r.isInt(6):
			kv.Lease = LeaseID(r.n)
		}
	}
	return r.err
}

// GetAnswer has the keys of a range in their order.
type GetAnswer struct {
	Header
	Keys []KeyValue
	More bool // keys than the limit
}

func (a *GetAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.isBytes(1):
			r.err = a.Header.decode(r.data)
		case r.isBytes(2):
			if len(a.Keys) == maxItems {
				return tooMany("keys")
			}
			a.Keys = append(a.Keys, KeyValue{})
			r.err = a.Keys[len(a.Keys)-1].decode(r.data)
		case r.isInt(3):
			a.More = protowire.DecodeBool(r.n)
		}
	}
	return r.err
}

// TxnAnswer says what a transaction has done.
type TxnAnswer struct {
	Header
	Succeeded bool // all conditions did hold
	// Got has an answer for each operation that was done; that of a Put or Delete is empty.
	Got []GetAnswer
	ops []protowire.Number // that were done, see Op
}

func (a *TxnAnswer) decode(b []byte) error {
	r, keys := reader{rest: b}, 0
	for r.next() {
		switch {
		case r.isBytes(1):
			r.err = a.Header.decode(r.data)
		case r.isInt(2):
			a.Succeeded = protowire.DecodeBool(r.n)
		case r.isBytes(3):
			if len(a.Got) == maxItems {
				return tooMany("operations")
			}
			a.Got, a.ops = append(a.Got, GetAnswer{}), append(a.ops, 0)
			got := &a.Got[len(a.Got)-1]
			a.ops[len(a.ops)-1], r.err = got.decodeOp(r.data)
			if keys += len(got.Keys); keys > maxItems {
				return tooMany("keys")
			}
		}
	}
	return r.err
}

// decodeOp decodes the answer to one operation of a transaction, and returns which one that was, or 0 for none of Op.
func (a *GetAnswer) decodeOp(b []byte) (op protowire.Number, err error) {
	r := reader{rest: b}
	for r.next() {
		if r.kind != protowire.BytesType || r.field > 4 {
			continue
		}
		// They exclude each other; the last one counts.
		if r.field != op {
			op, *a = r.field, GetAnswer{}
		}
		if op == (Get{}).union() {
			r.err = a.decode(r.data)
		}
	}
	return op, r.err
}

// done reports whether the answer is one to these operations.
func (a *TxnAnswer) done(ops []Op) bool {
	for i, op := range ops {
		if i >= len(a.ops) || a.ops[i] != op.union() {
			return false
		}
	}
	return len(a.ops) == len(ops)
}

// numberAnswer is the header and one number of an answer.
type numberAnswer struct {
	Header
	field protowire.Number
	n     int64
}

func (a *numberAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.isBytes(1):
			r.err = a.Header.decode(r.data)
		case r.isInt(a.field):
			a.n = int64(r.n)
		}
	}
	return r.err
}

// statusAnswer has the version of a member.
type statusAnswer struct{ version string }

func (a *statusAnswer) decode(b []byte) error { return decodeText(&a.version, b) }

type authenticateAnswer struct{ token string }

func (a *authenticateAnswer) decode(b []byte) error { return decodeText(&a.token, b) }

// decodeText decodes a message whose second field is a text.
func decodeText(to *string, b []byte) error {
	r := reader{rest: b}
	for r.next() {
		if r.isBytes(2) {
			*to = string(r.data)
		}
	}
	return r.err
}

// emptyAnswer is an answer of which nothing is needed.
type emptyAnswer struct{}

func (*emptyAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
	}
	return r.err
}

// Event is a change of a key.
type Event struct {
	Deleted bool
	KeyValue
}

func (e *Event) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.isInt(1):
			e.Deleted = int32(r.n) == 1
		case r.isBytes(2):
			r.err = e.KeyValue.decode(r.data)
		}
	}
	return r.err
}

type watchAnswer struct {
	Header
	created, canceled bool
	compacted         int64 // the oldest revision that is left, if the watch needs older ones
	reason            string
	fragment          bool // the next answer has more of the same changes
	events            []Event
}

func (a *watchAnswer) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		switch {
		case r.isBytes(1):
			r.err = a.Header.decode(r.data)
		case r.isInt(3):
			a.created = protowire.DecodeBool(r.n)
		case r.isInt(4):
			a.canceled = protowire.DecodeBool(r.n)
		case r.isInt(5):
			a.compacted = int64(r.n)
		case r.isBytes(6):
			a.reason = string(r.data)
		case r.isInt(7):
			a.fragment = protowire.DecodeBool(r.n)
		case r.isBytes(11):
			if len(a.events) == maxItems {
				return tooMany("events")
			}
			a.events = append(a.events, Event{})
			r.err = a.events[len(a.events)-1].decode(r.data)
		}
	}
	return r.err
}
