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
func (o *Service) Unfinished(ctx context.Context, path string) iter.Seq2[UnfinishedLine, error] {
	return func(yield func(UnfinishedLine, error) bool) {
		path := o.opts.Tree.Full(path)
		if !o.opts.Tree.HasAgent(path) {
			yield(UnfinishedLine{}, o.opts.Tree.NotFound(path))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		last := ""
		tell := func(text string) {
			if text != last && ctx.Err() == nil && !yield(UnfinishedLine{Text: text}, nil) {
				cancel()
			}
			last = text
		}
		var seen runtime.Session
		tick := time.NewTicker(sessionInterval)
		defer tick.Stop()
		for {
			if s := o.session(path); s != nil && s != seen {
				seen = s
				if u, ok := s.(runtime.Unfinished); ok {
					_ = u.Unfinished(ctx, tell) // of a shim that cannot tell there is nothing to show
					tell("")
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			case <-o.opts.Ended:
				return
			}
		}
	}
}

// sessionInterval is how soon the next incarnation of an agent is looked at.
const sessionInterval = 200 * time.Millisecond

const (
	unfinishedTime  = time.Second // for an agent's runtime to tell what there is
	unfinishedTries = 3           // of an agent that writes all the time
)

// unfinished passes on the last line of a source while its end is not written. The log
// of a terminal has it; that of other output has whole lines, and the runtime the rest.
func (r *logReader) unfinished(ctx context.Context, s *logSource, emit func(logfile.Line)) error {
	var begun logfile.Line
	for range unfinishedTries {
		begun = beginningOf(ctx, r.o.session(s.path))
		grown := false // it may have become one of the lines that have come
		if err := s.tail.Next(func(l logfile.Line) { grown = true; emit(l) }); err != nil {
			return err
		}
		if !grown {
			break
		}
		begun = logfile.Line{}
	}
	s.tail.Rest(func(l logfile.Line) {
		begun = logfile.Line{}
		emit(l)
	})
	if begun.Text != "" && !begun.Time.Before(r.q.Since) {
		emit(begun)
	}
	return nil
}

// beginningOf returns what the incarnation of a session has written of its last line,
// without text if that is nothing or cannot be told.
func beginningOf(ctx context.Context, s runtime.Session) (l logfile.Line) {
	u, ok := s.(runtime.Unfinished)
	if !ok {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, unfinishedTime)
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
