package store

import (
	"context"
	"fmt"
	"iter"
	"strconv"
)

// Exporter is a store whose whole content can be read, to copy it into another kind of store.
type Exporter interface {
	// Export yields the content of the store as of one revision, in the order of CheckEntries.
	// Writers may go on meanwhile, also within the loop, and what they write is left out. The loop
	// must neither read nor close the store. Memory is bounded by a page of records.
	//
	// Leases and revisions are left out. Records that are damaged are left out, too; a store that
	// can have such records has a method Damaged() []string that names them.
	//
	// The number of a sequence is at least that of each record directly below its prefix, even if
	// such a record was put and not appended.
	//
	// It ends with an error as the last item: the context's error, ErrClosed, or one that says why
	// the store cannot be read. Without an error, it has yielded everything.
	Export(ctx context.Context) iter.Seq2[Entry, error]
}

// Importer is a store that can be filled with the content of another one.
type Importer interface {
	// Import writes the entries of an Export into the store as one atomic step: in the end all of
	// them are there, or the store is as empty as before. That holds if the process is killed, too,
	// but a store may need its next opening to remove what an interrupted import has left.
	//
	// The store must be empty: without a record, a sequence or an epoch, even if all records were
	// deleted again. Nothing else may use it meanwhile; writes wait or fail. Memory is bounded by a
	// page of records and the sequences.
	//
	// Records get new revisions, none after that of the store. The next append under a prefix gets a
	// greater number than its sequence has, and the next lease a greater epoch. An Export of the store
	// yields the same entries again, except that the epoch may be greater. A watch from a revision
	// before the import ends with ErrCompacted, or yields the records as changes.
	//
	// Errors:
	//
	//   - ErrNotEmpty: the store is not empty. Nothing has changed.
	//   - ErrInvalid: the entries are not in the order of CheckEntries, or break a bound. The error
	//     names the first wrong one. The store is empty.
	//   - ErrFull, ErrReadOnly, ErrClosed, the context's error, or the error of entries: the store
	//     is empty.
	//   - ErrUnknown: either all entries are there or none. Read the store to find out.
	Import(ctx context.Context, entries iter.Seq2[Entry, error]) error
}

// Entry is a part of the content of a store.
type Entry struct {
	Kind   EntryKind
	Key    string // of a record, or the prefix of a sequence; empty for the epoch
	Value  []byte // of a record. It is shared, and never modified
	Number uint64 // the last number of a sequence, or the last epoch; 0 for a record
}

// EntryKind is the kind of an Entry.
type EntryKind uint8

// The kinds, in the order in which Export yields them.
const (
	SequenceEntry EntryKind = iota + 1 // the last sequence number under a prefix; see Append
	EpochEntry                         // the last epoch of all leases
	RecordEntry
)

func (k EntryKind) String() string {
	switch k {
	case SequenceEntry:
		return "sequence"
	case EpochEntry:
		return "epoch"
	case RecordEntry:
		return "record"
	}
	return "kind " + strconv.Itoa(int(k))
}

func (e Entry) String() string {
	if e.Kind == EpochEntry || e.Key == "" {
		return e.Kind.String()
	}
	return fmt.Sprintf("%v %.200q", e.Kind, e.Key)
}

// Bounds on the entries of a copy.
const (
	MaxEntryNumber = 1 << 62 // of a sequence or an epoch; there is room to count on
	MaxSequences   = 100_000 // each is held in memory during an import
)

// CheckEntries yields entries up to the first one that cannot be part of an Export, and then an
// ErrInvalid that names it. It also ends with the error of entries, or of the context. Import calls
// it first.
//
// Entries come in this order: the sequences, sorted by key; then the epoch, unless it is 0; then the
// records, sorted by key. No two have the same kind and key. Keys and values are within the bounds of
// Apply. Numbers are from 1 to MaxEntryNumber. No record directly below the prefix of a sequence
// has a greater number than the sequence, since a later append would replace it.
func CheckEntries(ctx context.Context, entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := entryChecker{sequences: map[string]uint64{}}
		for e, err := range entries {
			if ended := ctx.Err(); ended != nil {
				err = ended
			}
			if err == nil {
				if err = c.check(e); err != nil {
					err = fmt.Errorf("entry %d, %v: %w", c.n, e, err)
				}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Entry{}, err)
		}
	}
}

// entryChecker checks entries one after the other.
type entryChecker struct {
	n         int // of the entry that is checked, from 1
	last      Entry
	sequences map[string]uint64
}

func (c *entryChecker) check(e Entry) error {
	c.n++
	last := c.last
	c.last = Entry{Kind: e.Kind, Key: e.Key}
	switch {
	case e.Kind < SequenceEntry || e.Kind > RecordEntry:
		return fmt.Errorf("%w: expected a sequence, an epoch or a record", ErrInvalid)
	case e.Kind < last.Kind:
		return fmt.Errorf("%w: it is after %v; sequences come first, then the epoch, then the records", ErrInvalid,
			last)
	case e.Kind == last.Kind && e.Key == last.Key:
		return fmt.Errorf("%w: there are two of it", ErrInvalid)
	case e.Kind == last.Kind && e.Key < last.Key:
		return fmt.Errorf("%w: it is after %v; each kind is sorted by key", ErrInvalid, last)
	case e.Kind == RecordEntry:
		return c.checkRecord(e)
	}
	return c.checkNumber(e)
}

func (c *entryChecker) checkNumber(e Entry) error {
	switch {
	case e.Number == 0 || e.Number > MaxEntryNumber:
		return fmt.Errorf("%w number %d: expected 1 to %d", ErrInvalid, e.Number, uint64(MaxEntryNumber))
	case len(e.Value) > 0:
		return fmt.Errorf("%w: it has a value, which only records have", ErrInvalid)
	case e.Kind == EpochEntry && e.Key != "":
		return fmt.Errorf("%w: it has the key %.200q, expected none", ErrInvalid, e.Key)
	case e.Kind == EpochEntry:
		return nil
	case len(c.sequences) == MaxSequences:
		return fmt.Errorf("%w: there are more than %d sequences", ErrInvalid, MaxSequences)
	}
	if err := checkOp(Op{Kind: Append, Key: e.Key}); err != nil {
		return err
	}
	c.sequences[e.Key] = e.Number
	return nil
}

func (c *entryChecker) checkRecord(e Entry) error {
	if err := checkOp(Op{Kind: Put, Key: e.Key, Value: e.Value}); err != nil {
		return err
	}
	if e.Number != 0 {
		return fmt.Errorf("%w number %d: a record has none", ErrInvalid, e.Number)
	}
	prefix, number, ok := CutSequenceKey(e.Key)
	if last := c.sequences[prefix]; ok && last > 0 && number > last {
		return fmt.Errorf("%w: the sequence of %s is only at %d, so a later append would replace the record",
			ErrInvalid, prefix, last)
	}
	return nil
}
