package storetest

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Entries that no store exports are errors that name the entry, and leave an empty store.
func testWrongEntries(t *testing.T, b Backend) {
	s := b.openCopyable(t)
	long := strings.Repeat("k", store.MaxKey)
	for name, c := range map[string]struct {
		names   string // a part of the error
		entries []store.Entry
	}{
		"no kind":                {"entry 1, kind 0", []store.Entry{{Key: "a"}}},
		"unknown kind":           {`entry 2, kind 9 "a"`, []store.Entry{record("b", "1"), {Kind: 9, Key: "a"}}},
		"empty key":              {"entry 1, record", []store.Entry{record("", "1")}},
		"bad key":                {`entry 2, record "b\n\x1b"`, []store.Entry{record("a", "1"), record("b\n\x1b", "1")}},
		"slash":                  {`record "b/"`, []store.Entry{record("a", "1"), record("b/", "1")}},
		"not UTF-8":              {`record "\xff"`, []store.Entry{record("\xff", "1")}},
		"key too long":           {"entry 2, record", []store.Entry{record(long, "1"), record(long+"k", "1")}},
		"value too big":          {`record "b"`, []store.Entry{record("a", "1"), record("b", strings.Repeat("v", store.MaxValue+1))}},
		"record twice":           {`entry 3, record "b"`, []store.Entry{record("a", "1"), record("b", "1"), record("b", "1")}},
		"records in disorder":    {`entry 3, record "b"`, []store.Entry{record("a", "1"), record("c", "1"), record("b", "1")}},
		"record with a number":   {`record "a"`, []store.Entry{{Kind: store.RecordEntry, Key: "a", Number: 1}}},
		"sequence twice":         {`entry 2, sequence "a"`, []store.Entry{sequence("a", 1), sequence("a", 2)}},
		"sequences in disorder":  {`entry 2, sequence "a"`, []store.Entry{sequence("b", 1), sequence("a", 2)}},
		"late sequence":          {`entry 2, sequence "b"`, []store.Entry{record("a", "1"), sequence("b", 1)}},
		"sequence of 0":          {`sequence "a"`, []store.Entry{sequence("a", 0)}},
		"greatest sequence":      {`sequence "a"`, []store.Entry{sequence("a", math.MaxUint64)}},
		"sequence of a bad key":  {`sequence "a//b"`, []store.Entry{sequence("a//b", 1)}},
		"sequence of a long key": {"entry 1, sequence", []store.Entry{sequence(long, 1)}},
		"sequence with a value":  {`sequence "a"`, []store.Entry{{Kind: store.SequenceEntry, Key: "a", Number: 1, Value: []byte("v")}}},
		"number after the last": {`entry 3, record "a/00000000000000000006"`, []store.Entry{sequence("a", 5),
			record(store.SequenceKey("a", 5), "1"), record(store.SequenceKey("a", 6), "1")}},
		"sequence of another": {`entry 3, record "a/b/00000000000000000006"`, []store.Entry{sequence("a", 9), sequence("a/b", 5),
			record(store.SequenceKey("a/b", 6), "1")}},
		"epoch twice":      {"entry 2, epoch", []store.Entry{epoch(1), epoch(2)}},
		"late epoch":       {"entry 2, epoch", []store.Entry{record("a", "1"), epoch(1)}},
		"epoch of 0":       {"entry 1, epoch", []store.Entry{epoch(0)}},
		"greatest epoch":   {"entry 1, epoch", []store.Entry{epoch(math.MaxUint64)}},
		"epoch with a key": {"entry 1, epoch", []store.Entry{{Kind: store.EpochEntry, Key: "a", Number: 1}}},
	} {
		err := s.Import(context.Background(), list(nil, c.entries...))
		wantErr(t, name, err, store.ErrInvalid)
		if err != nil && (!strings.Contains(err.Error(), c.names) || strings.ContainsAny(err.Error(), "\n\x1b") ||
			len(err.Error()) > 1000) {
			t.Errorf("%s: %q does not name %q in one line", name, err, c.names)
		}
		checkEmpty(t, s)
	}
}

// The greatest entries that are allowed can be copied, and a store goes on after them.
func testEntryBounds(t *testing.T, b Backend) {
	ctx, s := context.Background(), b.openCopyable(t)
	prefix := strings.Repeat("p", store.MaxKey-len(store.SequenceKey("", 0)))
	entries := []store.Entry{
		sequence("b", store.MaxEntryNumber), sequence(prefix, 1), epoch(store.MaxEntryNumber),
		record("a", strings.Repeat("v", store.MaxValue)), record("b", strings.Repeat("w", store.MaxValue)),
		record(store.SequenceKey("b", 0), ""), record(store.SequenceKey("b", store.MaxEntryNumber), "last"),
		record(store.SequenceKey("c", math.MaxUint64), "put"), record(strings.Repeat("k", store.MaxKey), "long"),
	}
	if err := s.Import(ctx, list(nil, entries...)); err != nil {
		t.Fatal(err)
	}
	want := withoutEpoch(append([]store.Entry{}, entries...))
	if got := withoutEpoch(exported(t, s)); got != want {
		t.Errorf("entries of %d bytes, want %d", len(got), len(want))
	}
	must(t, s, add("b", "next"), add(prefix, "next"))
	if got := get(t, s, store.SequenceKey("b", store.MaxEntryNumber+1)); string(got.Value) != "next" {
		t.Errorf("the next record is %+v", got)
	}
	if got := acquire(t, s, "ctl", time.Minute).Fence().Epoch; got <= store.MaxEntryNumber {
		t.Errorf("epoch %d", got)
	}
}
