package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// A record is synced once: a slot is left some time after its end, when the record is on the disk
// already.
func TestRecordIsSyncedOnce(t *testing.T) {
	dir := t.TempDir()
	end := *wire.NewEnd(supervisor.Exit{Kind: supervisor.Normal}, time.Now())
	var r records
	written := func(n uint64) os.FileInfo { // each write of the record is another file
		t.Helper()
		if err := r.sync(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ReadRecord(dir); err != nil || got.Incarnation != n {
			t.Fatalf("record %v, %v instead of one of incarnation %d", got, err, n)
		}
		info, err := os.Lstat(filepath.Join(dir, wire.ExitFile))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	r.last = wire.NewRecord(dir, 1, end, nil)
	first := written(1)
	if again := written(1); !os.SameFile(first, again) {
		t.Error("a record that was synced was written again")
	}
	r.last = wire.NewRecord(dir, 2, end, r.last)
	if second := written(2); os.SameFile(first, second) {
		t.Error("the file of the first record was written again")
	}
}

// A slot whose directory was removed after a record was synced has the record again, and syncs it again.
func TestRecordOfARestoredSlot(t *testing.T) {
	s := slotFor(t, "app/a")
	s.records.last = wire.NewRecord(s.dir, 1, *wire.NewEnd(supervisor.Exit{Kind: supervisor.Killed}, time.Now()), nil)
	if err := s.records.sync(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.restoreFiles()
	if s.records.synced != nil {
		t.Error("the new file counts as synced")
	}
	read := func() {
		t.Helper()
		if got, err := wire.ReadRecord(s.dir); err != nil || got.Incarnation != 1 {
			t.Errorf("record %+v, %v", got, err)
		}
	}
	read()
	if err := s.records.sync(s.dir); err != nil || s.records.synced != s.records.last {
		t.Errorf("sync: %v", err)
	}
	read()
}
