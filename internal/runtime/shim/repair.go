package shim

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// slotFiles are the files that a slot needs as long as a shim serves it, so that it is found.
var slotFiles = []string{wire.LockFile, wire.SocketFile}

// Repair makes shims create removed files of their slots again. It returns the agents whose
// slots were restored since the last call. It also checks for agents that have ended although
// their shims do not report it.
func (r *Runtime) Repair() (restored []string) {
	for _, s := range r.All() {
		if s.repair() {
			restored = append(restored, s.path)
		}
		if ses := s.session(); ses != nil {
			ses.probe()
		}
	}
	slices.Sort(restored)
	return restored
}

func (s *slot) repair() (restored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hasFiles(s.dir) {
		// The shim may have restored it before.
		was := s.lock
		s.lock, _ = os.Lstat(filepath.Join(s.dir, wire.LockFile))
		restored = s.missing || was != nil && s.lock != nil && !os.SameFile(was, s.lock)
		s.missing = false
	} else if proc.Observe(s.shim) == proc.Alive {
		s.missing = true
		s.shim.Signal(wire.WakeSignal)
	}
	return restored
}

func hasFiles(dir string) bool {
	for _, name := range slotFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); wire.IsMissing(err) { // or the socket it is a link to
			return false
		}
	}
	return true
}

// setShim records the shim of the slot.
func (s *slot) setShim(shim proc.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shim != shim {
		s.r.owners.addShim(shim)
	}
	s.shim = shim
	if s.lock == nil {
		s.lock, _ = os.Lstat(filepath.Join(s.dir, wire.LockFile))
	}
}

// setSession records the last session that got a message.
func (s *slot) setSession(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = ses
}

// session returns the last session that got a message; nil if it has ended.
func (s *slot) session() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && slots.IsClosed(s.last.done) {
		s.last = nil
	}
	return s.last
}

// markHung records that the shim of an incarnation is killed because it hangs.
func (s *slot) markHung(incarnation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = incarnation
}

// whyLost sets the reason for the loss of an incarnation whose shim was killed because it hung.
func (s *slot) whyLost(st *wire.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed != 0 && s.killed == st.Incarnation {
		st.End = wire.NewLost(errHung, st.End.At)
	}
}

// lastShim returns the last known shim of the slot; the zero value if there was none.
func (s *slot) lastShim() proc.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shim
}

// wakeShimsTimeout bounds the wait for shims whose slots were removed.
const wakeShimsTimeout = 3 * time.Second

// wakeShims finds shims whose slots were removed while no daemon ran. Their working directories
// in /proc are the only trace of them. It wakes them, so that they create their slots again.
func (r *Runtime) wakeShims(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wakeShimsTimeout)
	defer cancel()
	pids, _ := proc.PIDs()
	ahead := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for _, pid := range pids {
		id, dir, ok := wire.ShimIn(pid)
		if !ok || dir != r.Dir {
			continue
		}
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			r.wakeShim(ctx, id)
		})
	}
	wg.Wait()
}

// wakeShim returns when a shim has created removed files again, or has ended.
func (r *Runtime) wakeShim(ctx context.Context, id proc.Identity) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for woken := false; proc.Observe(id) == proc.Alive; {
		if h, err := r.host(ctx, wire.SocketName(id.PID)); err == nil {
			if h.conn.ask(ctx, wire.Message{Type: wire.Wake}) == nil {
				return
			}
		}
		if !woken {
			id.Signal(wire.WakeSignal)
			woken = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
