package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Sweeper kills what agents have left behind, in whatever group or session, by
// an environment entry that no other process has. A look at all processes serves
// everybody who waits for one. The zero value is ready for use.
type Sweeper struct {
	mu      sync.Mutex
	next    *round // that has not begun
	running bool

	first     sync.Once
	before    map[string]struct{} // the entries that living processes had at the first SweepUnused
	beforeErr error
}

// round is one look at all processes.
type round struct {
	marks map[string]struct{}
	done  chan struct{}
	err   error
}

// sweepRounds is how often the processes of a slot are looked for: those that
// are found may start others before they die.
const sweepRounds = 50

// sweepTimeout bounds a look: a process that cannot die must not hold up the others for ever.
const sweepTimeout = 3 * time.Second

// Sweep kills all processes with this environment entry (NAME=value), and
// returns when none is left. Who calls it has made sure that none is started
// meanwhile.
func (s *Sweeper) Sweep(ctx context.Context, entry string) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &round{marks: make(map[string]struct{}), done: make(chan struct{})}
	}
	mine := s.next
	mine.marks[entry] = struct{}{}
	if !s.running {
		s.running = true
		go s.run()
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SweepUnused is Sweep for an entry that was given to no process since this
// Sweeper was made. What processes have of before is found by one look for all
// entries of the same name: a fleet that is started for the first time has as
// many of them as agents.
func (s *Sweeper) SweepUnused(ctx context.Context, entry string) error {
	s.first.Do(func() {
		name, _, _ := strings.Cut(entry, "=")
		s.before, s.beforeErr = entries(name + "=")
	})
	if _, used := s.before[entry]; !used && s.beforeErr == nil {
		return nil
	}
	return s.Sweep(ctx, entry)
}

func (s *Sweeper) run() {
	for {
		s.mu.Lock()
		r := s.next
		s.next, s.running = nil, r != nil
		s.mu.Unlock()
		if r == nil {
			return
		}
		r.err = r.kill()
		close(r.done)
	}
}

func (r *round) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	var last []Identity
	for range sweepRounds {
		found, err := marked(r.marks)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return nil
		}
		for _, id := range found {
			if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("killing process %d: %w", id.PID, err)
			}
		}
		for _, id := range found {
			if err := id.AwaitDeath(ctx); err != nil {
				return err
			}
		}
		last = found
	}
	return fmt.Errorf("new processes start faster than they can be killed, such as process %d", last[0].PID)
}

// entries returns the entries with this prefix in the environments of all processes.
func entries(prefix string) (map[string]struct{}, error) {
	found := make(map[string]struct{})
	pids, err := PIDs()
	for _, pid := range pids {
		env, _ := readEnviron(pid) // none of a process that has ended or belongs to another user
		for kv := range env {
			if strings.HasPrefix(kv, prefix) {
				found[kv] = struct{}{}
			}
		}
	}
	return found, err
}

// marked lists the running processes with one of the entries. The environments of other
// users' processes cannot be read, so these are never listed.
func marked(marks map[string]struct{}) ([]Identity, error) {
	pids, err := PIDs()
	if err != nil {
		return nil, err
	}
	var found []Identity
	for _, pid := range pids {
		if pid == os.Getpid() || !hasMark(pid, marks) {
			continue
		}
		if id, err := Identify(pid); err == nil && Observe(id) != Dead {
			found = append(found, id)
		}
	}
	return found, nil
}

func hasMark(pid int, marks map[string]struct{}) bool {
	env, _ := readEnviron(pid)
	for kv := range env {
		if _, ok := marks[kv]; ok {
			return true
		}
	}
	return false
}
