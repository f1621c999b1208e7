package output

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// item is a line on its way to the consumer.
type item struct {
	line   Line
	source *logSource
	mark   string    // after the line; empty without a follower
	at     time.Time // never decreases within a log
	note   bool      // it was written by no agent
}

// pass completes a line that is shown next, and notes that it was.
func (i item) pass() Line {
	if i.skip(); i.mark != "" || i.note { // a reader that goes on after a note misses and repeats nothing
		i.line.Position = i.source.agent.marks.String()
	}
	return i.line
}

// skip notes that a line is left out.
func (i item) skip() {
	if i.mark != "" {
		i.source.agent.marks[i.source.node] = i.mark
	}
}

// counts returns 1 for a line that is one of those that the query asks for, and 0 for others. What came after a
// follower started is shown anyway.
func (r *logReader) counts(i item) int {
	if i.line.Between != nil || i.note || r.q.Follow && i.at.After(r.startedAt) {
		return 0
	}
	return 1
}

// stored yields the lines that are in a log now, and perhaps some of those that come meanwhile.
func (r *logReader) stored(ctx context.Context, s *logSource) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		going := true
		emit := func(l logfile.Line) {
			if i, shown := r.line(s, l); shown && going {
				going = yield(i, nil)
			}
		}
		// A log may grow faster than it is read: it ends with what was there at the start.
		var err error
		more := true
		for more && going && err == nil && !s.last.After(r.startedAt) {
			more, err = s.tail.Some(emit)
		}
		if err == nil && going && !more && !r.q.Follow {
			err = r.unfinished(ctx, s, emit)
		}
		switch {
		case err == nil || !going || ctx.Err() != nil:
		case s.far == nil:
			yield(item{}, fmt.Errorf("reading the log of %s: %w", s.agent.path, err))
		default:
			if i, ok := s.far.missing(err); ok {
				yield(i, nil)
			}
		}
	}
}

// storedOf yields the stored lines of all logs of an agent, ordered by time, or its screen.
func (r *logReader) storedOf(ctx context.Context, a *agentLog) iter.Seq2[item, error] {
	if a.screen != nil {
		return func(yield func(item, error) bool) {
			for _, text := range a.screen {
				if !yield(item{line: Line{Path: a.path, Line: text}}, nil) {
					return
				}
			}
		}
	}
	all := make([]iter.Seq2[item, error], len(a.sources))
	for i, s := range a.sources {
		all[i] = r.stored(ctx, s)
	}
	return merge(all)
}

// lastStored yields the last lines of storedOf, as many as the query asks for.
func (r *logReader) lastStored(ctx context.Context, a *agentLog) iter.Seq2[item, error] {
	isLast := r.q.Follow && r.grep == nil && r.q.Since.IsZero() && len(a.sources) == 1
	if r.q.Lines < 0 || a.resumed || isLast {
		return r.storedOf(ctx, a)
	}
	return func(yield func(item, error) bool) {
		var last []item
		first, lines := 0, 0
		for i, err := range r.storedOf(ctx, a) {
			if err != nil {
				yield(i, err)
				return
			}
			last = append(last, i)
			for lines += r.counts(i); lines > r.q.Lines; first++ {
				lines -= r.counts(last[first])
				last[first].skip()
			}
			if first > len(last)/2 { // amortized
				last, first = slices.Delete(last, 0, first), 0
			}
		}
		for _, i := range last[first:] {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// history yields the stored lines of all logs, ordered by time. It returns false if it ended early.
func (r *logReader) history(ctx context.Context, yield func(Line, error) bool) bool {
	all := make([]iter.Seq2[item, error], len(r.order))
	for i, a := range r.order {
		all[i] = r.lastStored(ctx, a)
	}
	for i, err := range merge(all) {
		if err != nil {
			yield(Line{}, err)
			return false
		}
		if !yield(i.pass(), nil) {
			return false
		}
	}
	return true
}

// merge merges sequences of lines by their times, until one has an error. Each line stays after those that came before
// it in its sequence.
func merge(all []iter.Seq2[item, error]) iter.Seq2[item, error] {
	if len(all) == 1 {
		return all[0]
	}
	return func(yield func(item, error) bool) {
		var heads logHeap
		defer func() {
			for _, h := range heads {
				h.stop()
			}
		}()
		for i, seq := range all {
			h := &logHead{order: i}
			h.next, h.stop = iter.Pull2(seq)
			if h.pull() {
				heads = append(heads, h)
			}
		}
		heap.Init(&heads)
		for len(heads) > 0 {
			h := heads[0]
			if !yield(h.item, h.err) || h.err != nil {
				return
			}
			if h.pull() {
				heap.Fix(&heads, 0)
			} else {
				heap.Pop(&heads)
			}
		}
	}
}

// logHead is the next line of a sequence.
type logHead struct {
	next  func() (item, error, bool)
	stop  func()
	item  item
	err   error
	at    time.Time // never decreases within a sequence
	order int
}

func (h *logHead) pull() (ok bool) {
	if h.item, h.err, ok = h.next(); !ok {
		h.stop()
	} else if h.item.line.Time.After(h.at) {
		h.at = h.item.line.Time
	}
	return ok
}

type logHeap []*logHead

func (h logHeap) Len() int      { return len(h) }
func (h logHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *logHeap) Push(x any)   { *h = append(*h, x.(*logHead)) }
func (h logHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h *logHeap) Pop() any {
	last := len(*h) - 1
	head := (*h)[last]
	*h = (*h)[:last]
	return head
}
