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

// Sweeper kills what agents have left behind, in any group or session. It finds the processes by
// an environment entry that no other process has. One scan of all processes serves all
// concurrent calls. The zero value is ready to use.
type Sweeper struct {
	mu      sync.Mutex
	next    *round // has not begun yet
	running bool

	first     sync.Once
	before    map[string]struct{} // entries of the processes that ran at the first SweepUnused
	beforeErr error
}

// round is one scan of all processes.
type round struct {
	marks map[string]struct{}
	done  chan struct{}
	err   error
}

// sweepRounds bounds the scans for a slot. Processes that are found may start others before they
// die.
const sweepRounds = 50

// sweepTimeout bounds a round, because a process that cannot die must not block the others
// forever.
const sweepTimeout = 3 * time.Second

// Sweep kills all processes with this environment entry (NAME=value), and returns when none is
// left. The caller ensures that none is started meanwhile.
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

// SweepUnused is Sweep for an entry that no process got since this Sweeper was created. One scan
// finds all older entries of the same name: a fleet that starts for the first time has as many
// of them as agents.
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
		env, _ := readEnviron(pid) // empty for a process that has ended or belongs to another user
		for kv := range env {
			if strings.HasPrefix(kv, prefix) {
				found[kv] = struct{}{}
			}
		}
	}
	return found, err
}

// marked lists the running processes with one of the entries. It cannot find those of other
// users, whose environments cannot be read.
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
