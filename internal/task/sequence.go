package task

import (
	"iter"
	"slices"
)

// sequence holds tasks in list order. They are kept in chunks, so adding and removing a task
// does not move all others.
type sequence struct {
	chunks [][]*entry // none is empty
}

// maxChunk bounds the tasks of a chunk.
const maxChunk = 512

// find returns the chunk and the position of a task, or where it would be inserted.
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

// add inserts a task that is not in the sequence.
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

// remove removes a task, given the record with which it was added.
func (s *sequence) remove(r *Record) {
	chunk, at := s.find(r)
	c := slices.Delete(s.chunks[chunk], at, at+1)
	if s.chunks[chunk] = c; len(c) == 0 {
		s.chunks = slices.Delete(s.chunks, chunk, chunk+1)
	}
}

// after yields the tasks after a record; all if it is nil.
func (s *sequence) after(r *Record) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		chunk, at := 0, 0
		if r != nil {
			chunk, at = s.find(r)
		}
		for ; chunk < len(s.chunks); chunk, at = chunk+1, 0 {
			for _, e := range s.chunks[chunk][at:] {
				if r != nil && e.compare(r) <= 0 {
					continue // r itself
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}

// merge merges two ordered sequences.
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
