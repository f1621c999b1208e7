package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// slot is the place of one agent.
type slot struct {
	r         *Runtime
	path, dir string
	turn      chan struct{} // a mutex for changes of what runs in the slot

	launched   runtime.Launch // the last launch; guarded by turn
	launchedBy *link          // its link, whose shim still knows the launch
	group      *cgroup.Group  // nil if there are none; guarded by turn
	used       bool           // a shim was started here; guarded by turn
	starting   *host          // has the slot since this start; guarded by turn

	mu       sync.Mutex
	idle     *link         // of an incarnation that has ended, for the next one
	kept     *keptLink     // of an incarnation that runs, for its session; nil if there is none
	shim     proc.Identity // the last one that is known
	lock     os.FileInfo   // of its lock file
	missing  bool          // the shim was woken to restore its files
	listener *listening    // nil if there is none
	last     *session      // the last one that got a message
	killed   uint64        // incarnation whose shim was killed because it hung; 0 if none
}

// take locks turn.
func (s *slot) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.r.Ctx.Done():
		return slots.ErrClosed
	}
}

func (s *slot) release() { <-s.turn }

// park keeps the link of an incarnation that has ended.
func (s *slot) park(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.r.Ctx.Err() != nil:
		l.close(slots.ErrClosed)
		return
	case s.idle != nil && !s.idle.isLost():
		l.close(errLinkLost) // one is enough; a call on the other one is repeated
		return
	}
	s.idle = l
}

func (s *slot) unpark() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.idle
	s.idle = nil
	if l != nil && l.isLost() {
		return nil
	}
	return l
}

func (s *slot) dropIdle() {
	if l := s.unpark(); l != nil {
		l.close(slots.ErrClosed)
	}
}

// keptLink is a link that nothing was read from since the shim told its state: what happened after
// that is still to be read.
type keptLink struct {
	link  *link
	state *wire.State
}

// keep keeps a link until unkeep is called. It reports false, and does nothing, if the slot has a
// session.
func (s *slot) keep(l *link, st *wire.State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return false
	}
	if s.kept != nil {
		s.kept.link.close(slots.ErrClosed)
	}
	s.kept = &keptLink{l, st}
	return true
}

// unkeep returns the kept link and the state of its shim then; nil if there is none.
func (s *slot) unkeep() (*link, *wire.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept
	s.kept = nil
	if k == nil || k.link.isLost() {
		return nil, nil
	}
	return k.link, k.state
}

// Times of find.
const (
	findTimeout = 3 * time.Second        // that a shim may hold the lock and not respond
	wakeTime    = 300 * time.Millisecond // after which it is woken to check its socket
	findPause   = 2 * time.Millisecond   // between two tries, doubling
)

// settle ends the start in progress in a shim that has just got the slot.
func (s *slot) settle() {
	if s.starting != nil {
		s.r.settle(s.starting)
		s.starting = nil
	}
}

// find connects to the shim of the slot or, if none runs, takes the lock. It returns ErrUnknown
// if neither is possible now.
func (s *slot) find(ctx context.Context) (*link, *wire.State, *os.File, error) {
	if l, st := s.unkeep(); l != nil {
		return l, st, nil, nil
	}
	begin := time.Now()
	woken := false
	for pause := findPause; ; pause = min(2*pause, 100*time.Millisecond) {
		l, st, derr := s.r.dial(ctx, s.dir)
		if derr == nil {
			return l, st, nil, nil
		}
		if ctx.Err() != nil {
			return nil, nil, nil, context.Cause(ctx)
		}
		lock, err := wire.TryLock(s.dir)
		switch {
		case err != nil && !wire.IsMissing(err):
			return nil, nil, nil, fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		case err != nil && !s.r.serves(ctx, s.lastShim(), s.dir):
			return nil, nil, nil, err
		case err != nil: // The shim creates the directory again.
			s.wake()
			pause, derr = 100*time.Millisecond, err
		case lock != nil:
			ok, err := s.ended(ctx)
			if ok {
				return nil, nil, lock, nil
			}
			// Its file was removed. The shim creates another one and locks it, now that it is
			// free.
			lock.Close()
			s.wake()
			pause, derr = 100*time.Millisecond, err
		}
		waited := time.Since(begin)
		if waited > findTimeout {
			return nil, nil, nil, fmt.Errorf("%w: %w", runtime.ErrUnknown, derr)
		}
		if waited > wakeTime && !woken {
			woken = true
			s.wake()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, nil, nil, context.Cause(ctx)
		case <-s.r.Ctx.Done():
			return nil, nil, nil, slots.ErrClosed
		}
	}
}

// wake makes the shim check whether its files exist.
func (s *slot) wake() {
	id := s.lastShim()
	if st, err := wire.ReadState(s.dir); err == nil {
		id = st.Shim
	}
	id.Signal(wire.WakeSignal)
}

// ended reports whether the last shim of a slot has ended. It releases the lock a moment before
// that, and has no lock if its file was removed.
func (s *slot) ended(ctx context.Context) (bool, error) {
	shim := s.lastShim()
	st, err := wire.ReadState(s.dir)
	if err == nil {
		shim = st.Shim
	}
	switch {
	case !s.r.serves(ctx, shim, s.dir):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("shim %d is running, but the state of the slot cannot be read: %w", shim.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTime)
	defer cancel()
	if err := shim.AwaitDeath(ctx); err != nil {
		return false, fmt.Errorf("shim %d is running, but does not hold the lock of the slot: %w", shim.PID, err)
	}
	return true, nil
}

// conclude determines, with the lock of the slot, how the last incarnation ended, and kills what
// is left of it. Incarnation 0 means that there was none.
func (s *slot) conclude(ctx context.Context) (*wire.State, error) {
	st, err := wire.ReadState(s.dir)
	fresh := wire.IsMissing(err)
	switch {
	case fresh:
		st = &wire.State{Version: wire.Version, Path: s.path}
	case err != nil: // damaged: only its end is certain
		s.r.log.Warn("cannot read the state of a slot", "path", s.path, "error", err)
		st = &wire.State{Version: wire.Version, Path: s.path}
		if record, err := wire.ReadRecord(s.dir); err == nil {
			st.Incarnation = record.Incarnation
		}
		st.End = wire.NewLost(err, time.Now())
	case st.Path != s.path:
		return nil, fmt.Errorf("slot %s belongs to agent %.200q", s.dir, st.Path)
	case st.LoadEnd(s.dir):
		s.leaveGroups(st)
		return st, nil
	}
	if st.Incarnation > 0 {
		s.whyLost(st)
	}
	if err := s.killGroups(ctx, st); err != nil {
		return nil, fmt.Errorf("%w: killing what the last incarnation left behind: %w", runtime.ErrUnknown, err)
	}
	sweep := s.r.sweeper.Sweep
	if fresh && !s.used {
		sweep = s.r.sweeper.SweepUnused
	}
	if err := sweep(ctx, wire.MarkerEnv+"="+wire.Marker(s.dir)); err != nil {
		return nil, fmt.Errorf("%w: killing what the last incarnation left behind: %w", runtime.ErrUnknown, err)
	}
	if st.Incarnation > 0 {
		// The loss is final, so that nothing need be searched again.
		record := wire.NewRecord(s.dir, st.Incarnation, *st.End, nil)
		if err := wire.WriteSynced(filepath.Join(s.dir, wire.ExitFile), record,
			func(replace func() error) error { return replace() }); err != nil {
			s.r.log.Warn("cannot record a lost incarnation", "path", s.path, "error", err)
		}
	}
	s.leaveGroups(st)
	return st, nil
}

// killLeft kills what is left of the last incarnation of a slot that was removed. It has the lock
// of the slot meanwhile, so that nothing is started there.
func (s *slot) killLeft(ctx context.Context) error {
	err := os.MkdirAll(s.r.Dir, 0o700)
	if err == nil {
		err = os.Mkdir(s.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	}
	lock, err := wire.TryLock(s.dir)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	case lock == nil:
		return fmt.Errorf("%w: the slot is in use again", runtime.ErrUnknown)
	}
	defer lock.Close()
	st, err := s.conclude(ctx)
	if err != nil || st.Incarnation > 0 { // another process has used it again
		return err
	}
	return os.RemoveAll(s.dir)
}

// Adopt creates a session of the last incarnation.
func (s *slot) Adopt(ctx context.Context) (runtime.Session, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	defer s.release()
	l, st, lock, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	if lock != nil {
		defer lock.Close()
		if st, err = s.conclude(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case st.Incarnation == 0 && st.End == nil:
		if l != nil {
			l.close(slots.ErrClosed)
		}
		return nil, fmt.Errorf("nothing was ever started: %w", fs.ErrNotExist)
	case st.Path != s.path && st.Path != "":
		l.close(slots.ErrClosed)
		return nil, fmt.Errorf("slot %s belongs to agent %.200q", s.dir, st.Path)
	}
	ses := newSession(s, st.Incarnation)
	ses.update(st)
	if l != nil {
		s.listen()
		ses.connect(l)
		ses.watch(l, false)
	}
	return ses, nil
}

// Remove makes the shim leave the slot, if no agent runs there, and deletes it.
func (s *slot) Remove(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.release()
	err := s.remove(ctx)
	if err == nil {
		s.r.owners.remove(s)
		err = s.removeFiles() // before the next start, which may bring others
	}
	return err
}

// remove is Remove without the files of the agent. The caller has the turn.
func (s *slot) remove(ctx context.Context) error {
	s.dropIdle()
	if _, err := os.Lstat(s.dir); wire.IsMissing(err) && !s.r.serves(ctx, s.lastShim(), s.dir) {
		return nil
	}
	for {
		l, _, lock, err := s.find(ctx)
		if err != nil {
			return err
		}
		if lock != nil {
			defer lock.Close()
			if _, err := s.conclude(ctx); err != nil {
				return err
			}
			return s.r.Discard(s.dir, s.path)
		}
		l.listen(nil)
		_, err = l.call(ctx, wire.Message{Type: wire.Quit})
		l.close(slots.ErrClosed)
		if err != nil && !errors.Is(err, errLinkLost) {
			return err
		}
	}
}
