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

// Plan is a file of beads that was read and found right, all of it.
type Plan struct {
	file  io.ReaderAt
	lines []beadLine
	Order []int // indexes of lines, those that are waited for first
}

// beadLine is where a bead is.
type beadLine struct {
	number int // from 1
	offset int64
	length int
	id     string
	waits  []string // ids of what it depends on
	parent string
}

// LineError is what is wrong with a line.
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

// maxLineErrors is how many lines are named that are wrong.
const maxLineErrors = 100

// ReadPlan reads a file of beads of that name, a line for each. Unless all of it is right, the
// error is one for each line that is not, joined, up to 100 of them; with skip,
// they are handed to it instead, and left out, and so are those in circles.
// Beads are not held in memory.
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
				report(number, 1, fmt.Errorf("%w: %s is already in line %d", task.ErrInvalid, b.ID(), p.lines[first].number))
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

// column is where in a line an error is about its text.
func column(line, text []byte, err error) int {
	at := bytes.Index(line, text)
	var p *positionError
	if errors.As(err, &p) {
		at += min(p.at, len(text))
	}
	return utf8.RuneCount(line[:at]) + 1
}

// graph is what waits for what in a file, by indexes of lines. Tasks that are
// only named in it come after those.
type graph struct {
	names   []string
	missing []int // how many tasks each waits for
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

// sort puts what is waited for before what waits for it, and else leaves the
// order as it is. What is in a circle, or waits for one, is left over.
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

// reportCycles names each cycle once. What is left over and in none waits for one.
func (p *Plan) reportCycles(g *graph, report func(line, column int, err error)) {
	waitsFor := map[int]int{} // something that is left over, too
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
		// Actor goes on from one to what it waits for comes round.
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
	// It begins at the first of its lines.
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

// Batches yields the beads in their order, as they were written, in portions
// that can be imported at once. The error is of reading.
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

// intHeap is a heap of numbers.
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
