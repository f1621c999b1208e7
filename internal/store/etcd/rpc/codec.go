package rpc

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// request is a message to etcd.
type request interface{ appendTo(b []byte) []byte }

// answer is a message from etcd. It keeps no part of the bytes. Fields that it does not know are left out.
type answer interface{ decode(b []byte) error }

// codec is the codec of gRPC for these messages.
type codec struct{}

// Name returns the subtype of the content, as etcd knows it.
func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(request)
	if !ok {
		return nil, fmt.Errorf("%T is no request", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(r.appendTo(nil))}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(answer)
	if !ok {
		return fmt.Errorf("%T is no answer", v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return a.decode(b.ReadOnlyData())
}

// reader reads the fields of a message, one after the other. A field of another type than expected is like one that is
// not known, as in all implementations of Protocol Buffers.
type reader struct {
	rest  []byte
	field protowire.Number
	kind  protowire.Type
	n     uint64 // of an integer
	data  []byte // of bytes, a text or a message
	err   error  // ends the message
}

func (r *reader) next() bool {
	if r.err != nil || len(r.rest) == 0 {
		return false
	}
	var size int
	r.field, r.kind, size = protowire.ConsumeTag(r.rest)
	if !r.skip(size) {
		return false
	}
	switch r.kind {
	case protowire.VarintType:
		r.n, size = protowire.ConsumeVarint(r.rest)
	case protowire.BytesType:
		r.data, size = protowire.ConsumeBytes(r.rest)
	default:
		size = protowire.ConsumeFieldValue(r.field, r.kind, r.rest)
	}
	return r.skip(size)
}

// skip goes on after size bytes, which is negative for an error.
func (r *reader) skip(size int) bool {
	if size < 0 {
		r.err = protowire.ParseError(size)
		return false
	}
	r.rest = r.rest[size:]
	return true
}

func (r *reader) isInt(n protowire.Number) bool {
	return r.field == n && r.kind == protowire.VarintType
}

func (r *reader) isBytes(n protowire.Number) bool {
	return r.field == n && r.kind == protowire.BytesType
}

// appendInt appends an integer, unless it is zero, which is the default.
func appendInt(b []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

func appendBool(b []byte, field protowire.Number, v bool) []byte {
	return appendInt(b, field, int64(protowire.EncodeBool(v)))
}

// appendBytes appends bytes or a text, unless it is empty, which is the default.
func appendBytes[T []byte | string](b []byte, field protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return append(protowire.AppendVarint(b, uint64(len(v))), v...)
}

// appendMessage appends a message, also an empty one.
func appendMessage(b []byte, field protowire.Number, appendTo func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	at := len(b)
	b = appendTo(b)
	// Its length comes first, and takes an unknown number of bytes.
	size := len(b) - at
	prefix := protowire.SizeVarint(uint64(size))
	b = append(b, make([]byte, prefix)...)
	copy(b[at+prefix:], b[at:at+size])
	protowire.AppendVarint(b[:at], uint64(size))
	return b
}
