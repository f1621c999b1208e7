package rpc

import "google.golang.org/protobuf/encoding/protowire"

// Op is an operation of a transaction: a Get, Put or Delete.
type Op interface {
	request
	union() protowire.Number // its field in RequestOp
}

// Get reads a key or a range.
type Get struct {
	Key      string
	End      string // of the range, exclusive; empty for one key
	Limit    int64  // of keys; 0 for none
	Revision int64  // 0 for the current one
	KeysOnly bool
}

// Put writes a key.
type Put struct {
	Key       string
	Value     []byte
	Lease     LeaseID // to which the key is attached; 0 for none
	KeepLease bool    // to which the key is attached already; the key must exist
}

// Delete deletes a key or a range.
type Delete struct {
	Key string
	End string // of the range, exclusive; empty for one key
}

func (Get) union() protowire.Number    { return 1 }
func (Put) union() protowire.Number    { return 2 }
func (Delete) union() protowire.Number { return 3 }

func (g Get) appendTo(b []byte) []byte {
	b = appendBytes(b, 1, g.Key)
	b = appendBytes(b, 2, g.End)
	b = appendInt(b, 3, g.Limit)
	b = appendInt(b, 4, g.Revision)
	return appendBool(b, 8, g.KeysOnly)
}

func (p Put) appendTo(b []byte) []byte {
	b = appendBytes(b, 1, p.Key)
	b = appendBytes(b, 2, p.Value)
	b = appendInt(b, 3, int64(p.Lease))
	return appendBool(b, 6, p.KeepLease)
}

func (d Delete) appendTo(b []byte) []byte {
	b = appendBytes(b, 1, d.Key)
	return appendBytes(b, 2, d.End)
}

// Compare is a condition of a transaction.
type Compare struct {
	key      string
	isValue  bool
	value    string
	revision int64
}

// HasValue is the condition that a key exists and has a value.
func HasValue(key, value string) Compare { return Compare{key: key, isValue: true, value: value} }

// HasRevision is the condition that a key was last changed at a revision.
func HasRevision(key string, rev int64) Compare { return Compare{key: key, revision: rev} }

// IsMissing is the condition that a key does not exist.
func IsMissing(key string) Compare { return HasRevision(key, 0) }

// Numbers in Compare: its targets, which are equal in all conditions here, and the fields for these.
const (
	targetMod   = 2
	targetValue = 3

	compareMod   = 6
	compareValue = 7
)

func (c Compare) appendTo(b []byte) []byte {
	if c.isValue {
		b = appendInt(b, 2, targetValue)
		b = appendBytes(b, 3, c.key)
		b = protowire.AppendTag(b, compareValue, protowire.BytesType) // also if it is empty, or nothing is compared
		return protowire.AppendString(b, c.value)
	}
	b = appendInt(b, 2, targetMod)
	b = appendBytes(b, 3, c.key)
	b = protowire.AppendTag(b, compareMod, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(c.revision))
}

// Txn is a transaction: it does Then if all conditions hold, and otherwise Else.
type Txn struct {
	If         []Compare
	Then, Else []Op
}

func (t Txn) appendTo(b []byte) []byte {
	for _, c := range t.If {
		b = appendMessage(b, 1, c.appendTo)
	}
	for i, ops := range [][]Op{t.Then, t.Else} {
		for _, op := range ops {
			b = appendMessage(b, protowire.Number(2+i), func(b []byte) []byte {
				return appendMessage(b, op.union(), op.appendTo)
			})
		}
	}
	return b
}

// numberRequest is a request that has one number, in its first field.
type numberRequest int64

func (n numberRequest) appendTo(b []byte) []byte { return appendInt(b, 1, int64(n)) }

// emptyRequest is a request without fields.
type emptyRequest struct{}

func (emptyRequest) appendTo(b []byte) []byte { return b }

type authenticateRequest struct{ user, password string }

func (r authenticateRequest) appendTo(b []byte) []byte {
	b = appendBytes(b, 1, r.user)
	return appendBytes(b, 2, r.password)
}

// watchRequest begins a watch of all changes of a range from a revision on. Large answers come in parts.
type watchRequest struct {
	key, end string
	from     int64
}

func (r watchRequest) appendTo(b []byte) []byte {
	return appendMessage(b, 1, func(b []byte) []byte {
		b = appendBytes(b, 1, r.key)
		b = appendBytes(b, 2, r.end)
		b = appendInt(b, 3, r.from)
		return appendBool(b, 8, true) // fragment
	})
}

type progressRequest struct{}

func (progressRequest) appendTo(b []byte) []byte {
	return appendMessage(b, 3, func(b []byte) []byte { return b })
}
