package tmux

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// listen passes the lines of an incarnation to Options.Output, from a position in its log.
func (ses *session) listen(from logfile.Mark) {
	r := ses.slot.r
	if r.output == nil {
		return
	}
	t, err := logfile.From(ses.slot.logFile(), from)
	if err != nil {
		r.log.Warn("cannot show the output of an agent", "path", ses.slot.path, "error", err)
		return
	}
	ended := make(chan struct{})
	r.mu.Lock()
	r.listening[ses] = ended
	r.mu.Unlock()
	started := r.Background(func() {
		defer func() {
			t.Close()
			close(ended)
			r.mu.Lock()
			delete(r.listening, ses)
			r.mu.Unlock()
		}()
		err := ses.follow(context.Background(), t, func(line string) {
			r.output(ses.slot.path, ses.rec.Incarnation, proc.Line{Time: time.Now(), Stream: proc.Stdout, Text: line})
		})
		if err != nil && r.Ctx.Err() == nil {
			r.log.Warn("lines of output are lost", "path", ses.slot.path, "error", err)
		}
	})
	if !started {
		t.Close()
		close(ended)
	}
}

// finish waits for the last lines of all incarnations that have ended.
func (r *Runtime) finish() {
	r.mu.Lock()
	var last []chan struct{}
	for ses, ended := range r.listening {
		if ses.hasEnded() {
			last = append(last, ended)
		}
	}
	r.mu.Unlock()
	for _, ended := range last {
		<-ended
	}
}
