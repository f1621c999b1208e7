package output

import (
	"context"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Unfinished yields what there is of the last line of an agent's output while its end is
// not written, such as a progress bar: at once, whenever it has changed, and over restarts;
// "" when there is none. Of a runtime that cannot tell it yields nothing.
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
		tick := time.NewTicker(scanInterval)
		defer tick.Stop()
		for {
			if session := s.session(path); session != nil && session != seen {
				seen = session
				if u, ok := session.(runtime.Unfinished); ok {
					_ = u.Unfinished(ctx, emit) // of a shim that cannot tell there is nothing to show
					emit("")
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
	partialTimeout = time.Second // for an agent's runtime to tell what there is
	maxRereads     = 3           // of an agent that writes all the time
)

// unfinished passes on the last line of a source while its end is not written. The log
// of a terminal has it; that of other output has whole lines, and the runtime the rest.
func (r *logReader) unfinished(ctx context.Context, s *logSource, emit func(logfile.Line)) error {
	var partial logfile.Line
	for range maxRereads {
		partial = partialLine(ctx, r.service.session(s.path))
		grown := false // it may have become one of the lines that have come
		if err := s.tail.Next(func(l logfile.Line) { grown = true; emit(l) }); err != nil {
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

// partialLine returns what the incarnation of a session has written of its last line,
// without text if that is nothing or cannot be told.
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
