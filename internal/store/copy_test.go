package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

// entriesOf yields entries.
func entriesOf(n int, entry func(i int) Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i := range n {
			if !yield(entry(i), nil) {
				return
			}
		}
	}
}

// Sequences are held in memory, so there is a bound on them.
func TestMaxSequences(t *testing.T) {
	for _, n := range []int{MaxSequences, MaxSequences + 1} {
		passed, err := 0, error(nil)
		for _, err = range CheckEntries(t.Context(), entriesOf(n, func(i int) Entry {
			return Entry{Kind: SequenceEntry, Key: fmt.Sprintf("s/%06d", i), Number: 1}
		})) {
			if err == nil {
				passed++
			}
		}
		if passed != MaxSequences || errors.Is(err, ErrInvalid) != (n > MaxSequences) {
			t.Errorf("%d of %d sequences, %v", passed, n, err)
		}
	}
}

// CheckEntries ends with the first error, of the context before that of the entries.
func TestCheckEntriesEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	for e, err := range CheckEntries(ctx, func(yield func(Entry, error) bool) {
		for i := range 5 {
			if i == 3 {
				cancel()
			}
			if !yield(Entry{Kind: RecordEntry, Key: fmt.Sprint(i)}, nil) {
				return
			}
		}
		t.Error("the entries were read to the end")
	}) {
		got = append(got, fmt.Sprint(e.Key, err))
	}
	if want := "0<nil> 1<nil> 2<nil> context canceled"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for range CheckEntries(t.Context(), entriesOf(9, func(int) Entry { return Entry{Kind: EpochEntry, Number: 1} })) {
		break // nothing is yielded after that
	}
}

// Whatever passes CheckEntries could be written with Apply, comes in order, and leaves room to count.
func FuzzCheckEntries(f *testing.F) {
	f.Add("1a|3b|3c", uint64(1))
	f.Add("1log|2|3log/00000000000000000003", uint64(2))
	f.Add("3a//|9|3\xff", uint64(1<<63))
	f.Fuzz(func(t *testing.T, text string, number uint64) {
		parts := strings.Split(text, "|")
		var last Entry
		var err error
		sequences := map[string]uint64{}
		for e, checked := range CheckEntries(t.Context(), entriesOf(len(parts), func(i int) Entry {
			var e Entry
			if parts[i] != "" {
				e = Entry{Kind: EntryKind(parts[i][0] - '0'), Key: parts[i][1:]}
			}
			if e.Kind == RecordEntry {
				e.Value = []byte(parts[i])
			} else {
				e.Number = number
			}
			return e
		})) {
			if err = checked; err != nil {
				break
			}
			if e.Kind < last.Kind || e.Kind == last.Kind && e.Key <= last.Key || e.Number > MaxEntryNumber {
				t.Errorf("%v after %v", e, last)
			}
			last = e
			switch e.Kind {
			case SequenceEntry:
				sequences[e.Key] = e.Number
			case RecordEntry:
				if err := CheckKey(e.Key); err != nil {
					t.Error(err)
				}
				for prefix, last := range sequences {
					if n, ok := ParseSequenceKey(prefix, e.Key); ok && n > last {
						t.Errorf("%v is after the last number of %s, %d", e, prefix, last)
					}
				}
			}
		}
		if err != nil && (!errors.Is(err, ErrInvalid) || strings.ContainsAny(err.Error(), "\n\x1b\x00")) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
