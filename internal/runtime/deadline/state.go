package deadline

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// state holds the deadline that a process has read. The zero value has read nothing.
type state struct {
	seen     bool // the file was read once
	deadline Deadline
	last     Instant // the last time that was read, also when it is no longer in the file
	err      error   // of the last reading, if the deadline stands nevertheless or is over because of it
	told     bool    // the end of this deadline was reported
}

// read takes in the result of a reading of the file.
func (s *state) read(d Deadline, err error) {
	before := s.deadline
	switch {
	case err == nil:
		s.seen, s.deadline = true, d
	case s.seen: // it stands
	case errors.Is(err, fs.ErrNotExist):
		s.deadline, err = Deadline{none: true}, nil
	default:
		s.deadline = Deadline{}
	}
	s.err = err
	s.last = cmp.Or(s.deadline.until, s.last)
	if s.deadline.none || s.deadline.until > before.until {
		s.told = false
	}
}

// next returns when to read the file again; 0 means never. If the deadline is over it returns why, once.
func (s *state) next(now Instant) (at Instant, over error) {
	switch {
	case s.deadline.none:
		return 0, nil
	case now < s.deadline.until:
		return s.deadline.until, nil
	case s.told:
		return 0, nil
	}
	s.told = true
	switch {
	case s.err != nil:
		return 0, fmt.Errorf("%w: %w", runtime.ErrDeadline, s.err)
	case s.deadline.left != "":
		return 0, &leftError{s.deadline.left}
	}
	return 0, runtime.ErrDeadline
}

// end returns when the deadline that is over has come: agents have their grace from then on, also if this process was
// paused and the file no longer has its time.
func (s *state) end(now Instant) Instant { return min(cmp.Or(s.last, now), now) }

// check returns the error of a start.
func (s *state) check(now Instant) error {
	err := s.deadline.check(now)
	if err != nil && s.err != nil {
		return fmt.Errorf("%w: %w", err, s.err)
	}
	return err
}
