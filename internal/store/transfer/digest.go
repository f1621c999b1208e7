package transfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/coppice-dev/coppice/internal/store"
)

// digest sums up the entries of a store.
type digest struct {
	entries   int
	records   int
	sequences int
	epoch     uint64
	bytes     int64 // of keys and values
	sum       hash.Hash
	head      []byte // a buffer
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

// add adds an entry. The sum leaves out the epoch, which may be greater in a copy.
func (d *digest) add(e store.Entry) {
	d.entries++
	switch e.Kind {
	case store.RecordEntry:
		d.records++
	case store.SequenceEntry:
		d.sequences++
	case store.EpochEntry:
		d.epoch = e.Number
		return
	}
	d.bytes += int64(len(e.Key) + len(e.Value))
	d.head = append(d.head[:0], byte(e.Kind))
	d.head = binary.AppendUvarint(d.head, e.Number)
	d.head = binary.AppendUvarint(d.head, uint64(len(e.Key)))
	d.head = append(d.head, e.Key...)
	d.head = binary.AppendUvarint(d.head, uint64(len(e.Value)))
	d.sum.Write(d.head)
	d.sum.Write(e.Value)
}

// differs returns in what a store differs from the original; "" if it is the same.
func (d *digest) differs(original *digest) string {
	switch {
	case d.records != original.records:
		return fmt.Sprintf("%d records, expected %d", d.records, original.records)
	case d.sequences != original.sequences:
		return fmt.Sprintf("%d sequences, expected %d", d.sequences, original.sequences)
	case d.bytes != original.bytes:
		return fmt.Sprintf("%d bytes of keys and values, expected %d", d.bytes, original.bytes)
	case d.epoch < original.epoch:
		return fmt.Sprintf("epoch %d, expected at least %d", d.epoch, original.epoch)
	case !bytes.Equal(d.sum.Sum(nil), original.sum.Sum(nil)):
		return fmt.Sprintf("checksum %.16x, expected %.16x", d.sum.Sum(nil), original.sum.Sum(nil))
	}
	return ""
}

func (d *digest) report() Report {
	return Report{
		Records: d.records, Sequences: d.sequences, Epoch: d.epoch, Bytes: d.bytes,
		SHA256: hex.EncodeToString(d.sum.Sum(nil)), Damaged: []string{},
	}
}
