package server

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// output is the output of the slot's agents: their log, and the clients that see it.
type output struct {
	log      *logfile.Writer
	listener atomic.Pointer[listener] // nil if there is none

	mu         sync.Mutex
	unfinished [2]string // unfinished lines, by stream
	views      map[*view]struct{}
	writer     *view // the view that may type
}

// sinks returns the destinations of an incarnation's output. The log gets each read in one
// write. The output of a terminal is logged as it was written, with all cursor movements. Single
// lines are made for a listener only, which gets none before the previous incarnation is
// drained.
func (o *output) sinks(run *incarnation, before <-chan struct{}) proc.Output {
	out := proc.Output{
		Line: func(line proc.Line) {
			l := o.listener.Load()
			if l == nil {
				return
			}
			if before != nil { // one incarnation after the other, however slow the listener is
				<-before
				before = nil
			}
			l.line(run.number, line)
		},
		Partial: func(line proc.Line) {
			o.setUnfinished(line.Stream, line.Text)
			l := o.listener.Load()
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
		Wanted: func() bool { return o.listener.Load() != nil },
	}
	logged := func(stream proc.Stream, data []byte) {
		o.write(data)
		if bytes.IndexByte(data, '\n') >= 0 {
			o.setUnfinished(stream, "")
		}
	}
	if run.terminal {
		out.Raw = logged
	} else {
		out.Lines = logged
	}
	return out
}

// write appends output to the log and passes it to the views.
func (o *output) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.Append(b)
	for v := range o.views {
		v.add(b)
	}
}

// setUnfinished records the unfinished line of a stream; "" means that there is none.
func (o *output) setUnfinished(stream proc.Stream, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unfinished[stream-proc.Stdout] == text {
		return
	}
	o.unfinished[stream-proc.Stdout] = text
	for v := range o.views {
		if v.unfinished {
			v.grew = true
			v.c.nudge()
		}
	}
}
