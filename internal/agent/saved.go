package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// SavedState is the stored state of the nodes of a tree before they are started.
type SavedState struct {
	Orderly bool // the last daemon has stopped everything
	Records map[string]*Record
	Selves  map[string]*SelfRecord
	// Forgets reports whether the counters and decisions of the limit over a node are dropped,
	// ForgetsSelf the same of the counters that a supervisor has over its children. They may be nil.
	Forgets     func(path string) bool
	ForgetsSelf func(path string) bool

	adoptions map[string]adoption
}

// Load reads the records that the last daemon has left.
func (m *Manager) Load(ctx context.Context) (*SavedState, error) {
	stored, _, err := m.Store.Snapshot(ctx, RecordPrefix)
	if err != nil {
		return nil, fmt.Errorf("reading node records: %w", err)
	}
	orderly, _, err := m.Store.Snapshot(ctx, orderlyKey)
	if err != nil {
		return nil, fmt.Errorf("reading how the last daemon ended: %w", err)
	}
	s := &SavedState{Orderly: len(orderly) > 0}
	var unreadable []string
	s.Records, s.Selves, unreadable = ReadRecords(stored)
	for _, key := range unreadable {
		m.Logger.Warn("cannot read a node record, which is ignored", "key", key)
	}
	once := s.Orderly && string(orderly[0].Value) == onceEnd
	for path, r := range s.Records {
		switch {
		case once:
			*r = Record{Path: path, Incarnation: r.Incarnation, Ended: true, State: supervisor.Waiting.String()}
		case s.Orderly && !r.IsKept():
			r.State, r.Ended = supervisor.Waiting.String(), true
		default:
			r.finishStop()
		}
	}
	if once {
		clear(s.Selves)
	}
	return s, nil
}

// Of returns the record of a node, which is made if there is none.
func (s *SavedState) Of(path string) *Record {
	if s.Records[path] == nil {
		s.Records[path] = &Record{Path: path}
	}
	return s.Records[path]
}

// Saved returns what is known of a node in the form of the supervisor library; nil for nothing.
func (s *SavedState) Saved(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
	var self *supervisor.SavedSelf
	if r := s.Selves[path]; r != nil {
		self = &supervisor.SavedSelf{Counted: r.Counted, Paused: r.Paused, Probing: r.Probing}
		if s.ForgetsSelf != nil && s.ForgetsSelf(path) {
			self.Counted = nil
		}
	}
	r := s.Records[path]
	if r == nil {
		return nil, self
	}
	saved := r.Saved()
	if s.Forgets != nil && s.Forgets(path) {
		ResetLimit(saved)
	}
	if a, ok := s.adoptions[path]; ok {
		saved.State, saved.Adopt = supervisor.Waiting, true
		saved.Incarnation, saved.EndedAt = a.incarnation, a.endedAt
	}
	return saved, self
}

// ResetLimit drops what a limit has counted and decided. A node that has ended for good stays so, and
// so does one that was stopped by hand or has to be resumed: limits do not decide that.
func ResetLimit(s *supervisor.Saved) {
	s.Restarts, s.Attempt, s.Counted, s.NextAt = 0, 0, nil, time.Time{}
	switch s.State {
	case supervisor.Restarting, supervisor.Quarantined, supervisor.GivenUp:
		s.State, s.Reason = supervisor.Waiting, supervisor.NoReason
	}
}
