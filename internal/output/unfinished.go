package output

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Unfinished yields the last line of an agent's output while it is incomplete, such as a progress
// bar. It yields whenever the line changes, also after restarts; "" means that there is none. If
// the runtime does not support this, it yields nothing.
func (s *Service) Unfinished(ctx context.Context, path string) iter.Seq2[UnfinishedLine, error] {
	return func(yield func(UnfinishedLine, error) bool) {
		path := s.opts.Tree.Full(path)
		if !s.opts.Tree.HasAgent(path) {
			yield(UnfinishedLine{}, s.opts.Tree.NotFound(path))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		last := ""
		emit := func(text string) {
			if text != last && ctx.Err() == nil && !yield(UnfinishedLine{Text: text}, nil) {
				cancel()
			}
			last = text
		}
		var seen runtime.Session
		var again time.Time
		tick := time.NewTicker(scanInterval)
		defer tick.Stop()
		for {
			if session := s.session(path); session != nil && session != seen && !time.Now().Before(again) {
				seen = session
				if u, ok := session.(runtime.Unfinished); ok {
					err := u.Unfinished(ctx, emit) // old shims do not support it
					emit("")
					if errors.Is(err, runtime.ErrUnknown) { // the node is cut off
						seen, again = nil, time.Now().Add(farInterval)
					}
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			case <-s.opts.Ended:
				return
			}
		}
	}
}

const (
	partialTimeout = time.Second // for the runtime to answer
	maxRereads     = 3           // of a log that keeps growing
)

// unfinished emits the last line of a log while it is incomplete. The log of a terminal contains
// it. Other logs have complete lines only, and the runtime has the rest.
func (r *logReader) unfinished(ctx context.Context, s *logSource, emit func(logfile.Line)) error {
	var partial logfile.Line
	for range maxRereads {
		if r.isCurrent(s) {
			partial = partialLine(ctx, r.service.session(s.agent.path))
		}
		if s.far != nil && partial.Text == "" {
			break // all was read, and each look takes time
		}
		grown := false // the partial line may be complete by now
		if err := next(s.tail, func(l logfile.Line) { grown = true; emit(l) }); err != nil {
			return err
		}
		if !grown {
			break
		}
		partial = logfile.Line{}
	}
	s.tail.Rest(func(l logfile.Line) {
		partial = logfile.Line{}
		emit(l)
	})
	if partial.Text != "" && !partial.Time.Before(r.q.Since) {
		emit(partial)
	}
	return nil
}

// partialLine returns the incomplete last line of a session; without text if there is none or the
// runtime cannot tell.
func partialLine(ctx context.Context, s runtime.Session) (l logfile.Line) {
	u, ok := s.(runtime.Unfinished)
	if !ok {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, partialTimeout)
	defer cancel()
	first, stop := context.WithCancel(ctx)
	defer stop()
	_ = u.Unfinished(first, func(text string) {
		if first.Err() == nil {
			l.Text = text
			stop()
		}
	})
	if l.Text != "" {
		l.Incarnation = s.Observe().Incarnation
		l.Time, _ = s.LastActivity(ctx)
	}
	return l
}
