package server

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// records writes the exit record of the slot: one end after the other.
type records struct {
	mu    sync.Mutex
	last  *wire.Record
	timer *time.Timer // to the next sync; nil if there is none
}

// add tells an end and records it. What tell does is done before the file is written,
// and the views of the incarnation end before its successor may begin.
func (r *records) add(incarnation uint64, end *wire.End, s *server, tell func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell()
	r.last = wire.NewRecord(s.dir, incarnation, *end, r.last)
	s.save(wire.ExitFile, r.last)
	s.output.end()
	if r.timer == nil {
		r.timer = time.AfterFunc(syncTime, func() { s.setDetail(r.sync(s.dir)) })
	}
}

// await calls f when the last end is on record.
func (r *records) await(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// forget removes the exit record: those that follow may have the same numbers.
func (r *records) forget(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
	os.Remove(filepath.Join(dir, wire.ExitFile))
}

// syncTime is how long after an end its record is synced: not while its
// successor is being started, and once for all ends of an agent that crashes
// again and again.
const syncTime = 100 * time.Millisecond

// sync makes the last exit record safe from power cuts. It is not renamed if
// there is a newer one by then.
func (r *records) sync(dir string) error {
	r.mu.Lock()
	record := r.last
	r.timer = nil
	r.mu.Unlock()
	if record == nil {
		return nil
	}
	return wire.WriteSynced(filepath.Join(dir, wire.ExitFile), record, func(replace func() error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last != record {
			return nil
		}
		return replace()
	})
}
