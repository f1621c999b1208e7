package task

import (
	"iter"
	"slices"
)

// sequence is tasks in the order in which they are listed. It is kept in chunks,
// so that adding and removing one costs no walk over all of them.
type sequence struct {
	chunks [][]*entry // none is empty
}

// maxChunk is how many tasks a chunk has at most.
const maxChunk = 512

// find is where a task is, or would be: the chunk, and the place in that.
func (s *sequence) find(r *Record) (chunk, at int) {
	chunk, _ = slices.BinarySearchFunc(s.chunks, r, func(c []*entry, r *Record) int {
		return c[len(c)-1].compare(r)
	})
	if chunk == len(s.chunks) {
		return chunk, 0
	}
	at, _ = slices.BinarySearchFunc(s.chunks[chunk], r, func(e *entry, r *Record) int { return e.compare(r) })
	return chunk, at
}

// add adds a task that is not there.
func (s *sequence) add(e *entry) {
	chunk, at := s.find(e.Record)
	if chunk == len(s.chunks) {
		if chunk == 0 {
			s.chunks = append(s.chunks, []*entry{e})
			return
		}
		chunk--
		at = len(s.chunks[chunk])
	}
	c := slices.Insert(s.chunks[chunk], at, e)
	s.chunks[chunk] = c
	if len(c) > maxChunk {
		half := slices.Clone(c[maxChunk/2:])
		clear(c[maxChunk/2:])
		s.chunks[chunk] = c[:maxChunk/2]
		s.chunks = slices.Insert(s.chunks, chunk+1, half)
	}
}

// remove removes a task that is there, as it was when it was added.
func (s *sequence) remove(r *Record) {
	chunk, at := s.find(r)
	c := slices.Delete(s.chunks[chunk], at, at+1)
	if s.chunks[chunk] = c; len(c) == 0 {
		s.chunks = slices.Delete(s.chunks, chunk, chunk+1)
	}
}

// after are the tasks that come after one, all if it is nil.
func (s *sequence) after(r *Record) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		chunk, at := 0, 0
		if r != nil {
			chunk, at = s.find(r)
		}
		for ; chunk < len(s.chunks); chunk, at = chunk+1, 0 {
			for _, e := range s.chunks[chunk][at:] {
				if r != nil && e.compare(r) <= 0 {
					continue // the task itself
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// merge are two sequences as one.
func merge(a, b iter.Seq[*entry]) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		next, stop := iter.Pull(b)
		defer stop()
		other, more := next()
		for e := range a {
			for ; more && other.compare(e.Record) < 0; other, more = next() {
				if !yield(other) {
					return
				}
			}
			if !yield(e) {
				return
			}
		}
		for ; more; other, more = next() {
			if !yield(other) {
				return
			}
		}
	}
}
