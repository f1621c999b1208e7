package server

import (
	"bytes"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// sinks says where the output of an incarnation goes. The log gets all that was
// read at once in one write. A terminal is logged as it was written, with all
// that moves the cursor. Single lines are made for a listener only.
func (s *server) sinks(run *incarnation) proc.Output {
	before := s.drained // nil once it has been waited for
	out := proc.Output{
		Line: func(line proc.Line) {
			l := s.listening.Load()
			if l == nil {
				return
			}
			if before != nil { // one life after the other, however slow who listens is
				<-before
				before = nil
			}
			l.line(run.number, line)
		},
		Partial: func(line proc.Line) {
			s.setBegun(line.Stream, line.Text)
			l := s.listening.Load()
			if l == nil {
				return
			}
			if before != nil {
				select {
				case <-before:
					before = nil
				default:
					return
				}
			}
			l.line(run.number, line)
		},
		Wanted: func() bool { return s.listening.Load() != nil },
	}
	write := func(stream proc.Stream, data []byte) {
		s.output(data)
		if bytes.IndexByte(data, '\n') >= 0 {
			s.setBegun(stream, "")
		}
	}
	if run.terminal {
		out.Raw = write
	} else {
		out.Lines = write
	}
	return out
}

// output is where all that the agent writes goes.
func (s *server) output(b []byte) {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	s.log.Append(b)
	for v := range s.views {
		v.add(b)
	}
}

// setBegun notes what there is of a line that has no end yet; "": it has one.
func (s *server) setBegun(stream proc.Stream, text string) {
	s.viewMu.Lock()
	defer s.viewMu.Unlock()
	if s.begun[stream-proc.Stdout] == text {
		return
	}
	s.begun[stream-proc.Stdout] = text
	for v := range s.views {
		if v.begun {
			v.grew = true
			v.c.nudge()
		}
	}
}
