package server

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// records writes the exit record of the slot, one end after the other.
type records struct {
	syncing sync.Mutex // held by sync

	mu     sync.Mutex
	last   *wire.Record
	synced *wire.Record // the last one that is on the disk
	timer  *time.Timer  // for the next sync; nil if there is none
}

// add reports an end with tell, and records it after that. The views of the incarnation end
// before its successor may begin.
func (r *records) add(incarnation uint64, end *wire.End, s *slot, tell func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell()
	r.last = wire.NewRecord(s.dir, incarnation, *end, r.last)
	s.saveRecord(r.last)
	s.output.end()
	if r.timer == nil {
		r.timer = time.AfterFunc(syncTime, func() { s.setDetail(r.sync(s.dir)) })
	}
}

// restore writes the exit record again, if there is one.
func (r *records) restore(s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced = nil
	if r.last != nil {
		s.saveRecord(r.last)
	}
}

// await calls f when the last end is recorded.
func (r *records) await(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// forget removes the exit record, because the following ones may have the same numbers.
func (r *records) forget(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
	os.Remove(filepath.Join(dir, wire.ExitFile))
}

// syncTime is the time between an end and the sync of its record. So the sync does not delay the
// start of the successor, and serves all ends of an agent that crashes repeatedly.
const syncTime = 100 * time.Millisecond

// sync syncs the last exit record to the disk, unless it is there already. It does not replace a
// newer record.
func (r *records) sync(dir string) error {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	r.mu.Lock()
	record, synced := r.last, r.synced
	r.timer = nil
	r.mu.Unlock()
	if record == nil || record == synced {
		return nil
	}
	err := wire.WriteSynced(filepath.Join(dir, wire.ExitFile), record, func(replace func() error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last != record {
			return nil
		}
		return replace()
	})
	if err == nil {
		r.mu.Lock()
		r.synced = record
		r.mu.Unlock()
	}
	return err
}
