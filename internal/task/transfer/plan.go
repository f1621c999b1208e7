package transfer

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/task"
)

// Plan is a file of beads that was read and checked as a whole.
type Plan struct {
	file  io.ReaderAt
	lines []beadLine
	Order []int // indexes of lines, dependencies first
}

// beadLine locates a bead in a file.
type beadLine struct {
	number int // from 1
	offset int64
	length int
	id     string
	waits  []string // ids of what it depends on
	parent string
}

// LineError is an error in a line of a file.
type LineError struct {
	File   string // its name
	Line   int    // from 1
	Column int    // from 1, in characters
	Err    error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %v", e.File, e.Line, e.Column, e.Err)
}
func (e *LineError) Unwrap() error { return e.Err }

// maxLineErrors bounds the lines that an error names.
const maxLineErrors = 100

// ReadPlan reads and checks a file of beads, one a line. name is used in errors. The error joins
// those of up to 100 lines. With skip, wrong lines and beads in dependency cycles are passed to it
// and left out instead. Beads are not held in memory.
func ReadPlan(name string, file io.ReaderAt, size int64, skip func(*LineError)) (*Plan, error) {
	p := &Plan{file: file}
	var wrong []error
	n := 0
	report := func(line, column int, err error) {
		e := &LineError{name, line, column, err}
		if skip != nil {
			skip(e)
		} else if n++; n <= maxLineErrors {
			wrong = append(wrong, e)
		}
	}
	byID := map[string]int{} // indexes of lines
	r := bufio.NewReaderSize(io.NewSectionReader(file, 0, size), task.MaxBead+2)
	var offset int64
	for number := 1; ; number++ {
		line, err := r.ReadSlice('\n')
		at := offset
		offset += int64(len(line))
		if errors.Is(err, bufio.ErrBufferFull) {
			report(number, 1, fmt.Errorf("%w: it has more than %d bytes", task.ErrInvalid, task.MaxBead))
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = r.ReadSlice('\n')
				offset += int64(len(line))
			}
			line = nil
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("reading line %d: %w", number, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if b, err := ParseBead(text); err != nil {
				report(number, column(line, text, err), err)
			} else if first, twice := byID[b.ID()]; twice {
				report(number, 1, fmt.Errorf("%w: %s is already in line %d", task.ErrInvalid, b.ID(),
					p.lines[first].number))
			} else {
				byID[b.ID()] = len(p.lines)
				p.lines = append(p.lines, beadLine{number, at, len(line), b.ID(), b.task.DependsOn, b.task.Parent})
			}
		}
		if err == io.EOF {
			break
		}
	}
	p.sort(byID, report)
	if n > len(wrong) {
		wrong = append(wrong, fmt.Errorf("and %d more", n-len(wrong)))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return p, nil
}

// column returns the column in a line of an error about its trimmed text.
func column(line, text []byte, err error) int {
	at := bytes.Index(line, text)
	var p *positionError
	if errors.As(err, &p) {
		at += min(p.at, len(text))
	}
	return utf8.RuneCount(line[:at]) + 1
}

// graph is the dependency graph of a file. Nodes are indexes of lines; tasks that are not in the
// file come after them.
type graph struct {
	names   []string
	missing []int // open dependencies of each node
	waiters [][]int
}

func (p *Plan) graph(byID map[string]int) *graph {
	g := &graph{missing: make([]int, len(p.lines)), waiters: make([][]int, len(p.lines))}
	for _, l := range p.lines {
		g.names = append(g.names, fmt.Sprintf("%s (line %d)", l.id, l.number))
	}
	node := func(id string) int {
		i, there := byID[id]
		if !there {
			i = len(g.names)
			byID[id] = i
			g.names = append(g.names, id+" (not in the file)")
			g.missing, g.waiters = append(g.missing, 0), append(g.waiters, nil)
		}
		return i
	}
	wait := func(waiter, on int) {
		g.waiters[on] = append(g.waiters[on], waiter)
		g.missing[waiter]++
	}
	for i, l := range p.lines {
		for _, id := range l.waits {
			wait(i, node(id))
		}
		if l.parent != "" {
			wait(node(l.parent), i)
		}
	}
	return g
}

// sort puts beads after those they wait for, and otherwise keeps their order. It reports beads in
// cycles, and beads that wait for those.
func (p *Plan) sort(byID map[string]int, report func(line, column int, err error)) {
	g := p.graph(byID)
	var ready intHeap
	for i, n := range g.missing {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	heap.Init(&ready)
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int)
		if i < len(p.lines) {
			p.Order = append(p.Order, i)
		}
		for _, waiter := range g.waiters[i] {
			if g.missing[waiter]--; g.missing[waiter] == 0 {
				heap.Push(&ready, waiter)
			}
		}
	}
	if len(p.Order) < len(p.lines) {
		p.reportCycles(g, report)
	}
}

// reportCycles reports each cycle once, and the other beads that are left over.
func (p *Plan) reportCycles(g *graph, report func(line, column int, err error)) {
	waitsFor := map[int]int{} // one remaining dependency of each remaining node
	for on, all := range g.waiters {
		for _, waiter := range all {
			if g.missing[on] > 0 && g.missing[waiter] > 0 {
				waitsFor[waiter] = on
			}
		}
	}
	reported := map[int]bool{}
	for start := range p.lines {
		if g.missing[start] == 0 || reported[start] {
			continue
		}
		// Following what is waited for ends in a cycle.
		at := map[int]int{}
		var path []int
		for i := start; !reported[i]; i = waitsFor[i] {
			if from, seen := at[i]; seen {
				p.reportCycle(g, path[from:], reported, report)
				break
			}
			at[i] = len(path)
			path = append(path, i)
		}
		if !reported[start] {
			reported[start] = true
			report(p.lines[start].number, 1, fmt.Errorf("%w: %s waits for tasks in a dependency cycle", task.ErrInvalid,
				p.lines[start].id))
		}
	}
}

func (p *Plan) reportCycle(g *graph, path []int, reported map[int]bool, report func(line, column int, err error)) {
	// Start at the first line of the cycle.
	first := slices.Index(path, slices.Min(path))
	path = slices.Concat(path[first:], path[:first])
	var names []string
	for _, i := range path {
		reported[i] = true
		names = append(names, g.names[i])
	}
	line := p.lines[path[0]]
	report(line.number, 1, task.CycleError(append(names, line.id)))
}

// Batches yields the lines of beads in order, in portions for one import request. An error is one
// of reading the file.
func (p *Plan) Batches() iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		var batch [][]byte
		bytes := 0
		for _, i := range p.Order {
			l := p.lines[i]
			if len(batch) > 0 && (len(batch) == task.MaxImport || bytes+l.length > task.MaxImportBytes) {
				if !yield(batch, nil) {
					return
				}
				batch, bytes = nil, 0
			}
			line := make([]byte, l.length)
			if _, err := p.file.ReadAt(line, l.offset); err != nil && err != io.EOF {
				yield(nil, fmt.Errorf("reading line %d again: %w", l.number, err))
				return
			}
			batch, bytes = append(batch, line), bytes+l.length
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// intHeap is a heap of integers.
type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(v any)        { *h = append(*h, v.(int)) }
func (h *intHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
