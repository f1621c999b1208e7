package proc

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"
)

// Output configures where the lines of a process go. The functions may be nil.
type Output struct {
	// Line is called for each line, one call at a time. While it blocks, nothing is read, so the
	// pipe fills and the process blocks when it writes. No line is lost.
	Line func(Line)

	// Wanted reports whether Line must be called at present; nil means always. It is called once
	// for each read.
	Wanted func() bool

	// Lines gets the same text as Line, but all lines of a read in one call. Each line ends with
	// a newline; a part of a line that is too long does not. It is called before Line, with the
	// rules of Line, and must not keep text.
	Lines func(s Stream, text []byte)

	// Raw gets the output as it was written, before it is split into lines. It follows the rules
	// of Line and must not keep data.
	Raw func(s Stream, data []byte)

	// Partial gets what there is of a line whose end was not written yet, such as a progress
	// bar. It is called soon after a read, but not for each read. Line gets the whole line in
	// the end. It follows the rules of Line.
	Partial func(Line)

	// Tail is the number of last lines of stdout and of stderr that are kept: DefaultTail if
	// zero, none if negative.
	Tail int
}

// Bounds on the output that is kept.
const (
	DefaultTail = 20       // lines
	MaxLine     = 64 << 10 // bytes; longer lines come in parts
	maxTailLine = 2 << 10  // bytes of each line in the tail
	maxPartial  = 4 << 10  // bytes of a line without its end
)

// Line is a line of output, or a part of one that is too long.
type Line struct {
	Time   time.Time // time at which it was read
	Stream Stream
	// Text is valid UTF-8, with U+FFFD for what was not, without the line end. It may contain
	// escape sequences: see plaintext.Line.
	Text string
	// More means that the line was cut at MaxLine bytes and continues in the next Line of the
	// stream.
	More bool
	// Partial means that the end of the line was not written yet. The line comes again when it
	// is complete. Text may be a part of it.
	Partial bool
}

// Stream is a standard stream of a process.
type Stream uint8

const (
	Stdout Stream = 1
	Stderr Stream = 2
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// partialTime is the minimum time between two calls of Output.Partial for a stream.
const partialTime = 100 * time.Millisecond

// recorder passes on the lines of both streams, one at a time.
type recorder struct {
	sink   func(Line)
	wanted func() bool
	lines  func(Stream, []byte)
	raw    func(Stream, []byte)
	sinkMu sync.Mutex

	partial    func(Line)
	unfinished [2]unfinishedLine // by stream; guarded by sinkMu

	// The tails have their own lock, since they must be readable while sink blocks.
	tailMu   sync.Mutex
	tailSize int
	tails    [2]ring // one for each stream, so that a flood on one does not displace the last lines of the other
	count    uint64
}

// unfinishedLine is a line whose end was not read yet.
type unfinishedLine struct {
	text  []byte
	timer bool // a timer will pass it on
}

// ring holds the last lines of a stream.
type ring struct {
	lines  []tailLine
	oldest int
}

type tailLine struct {
	number uint64 // order among the lines of both streams
	text   []byte // reused for later lines
}

func newRecorder(o Output) *recorder {
	r := &recorder{sink: o.Line, wanted: o.Wanted, lines: o.Lines, raw: o.Raw, partial: o.Partial, tailSize: o.Tail}
	if o.Tail == 0 {
		r.tailSize = DefaultTail
	}
	return r
}

// emit passes on the lines of one read, or a part of a line (more).
func (r *recorder) emit(now time.Time, kind Stream, text []byte, more bool) {
	r.addTail(kind, text)
	if r.sink == nil && r.lines == nil {
		return
	}
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	b := &r.unfinished[kind-Stdout]
	b.text = b.text[:0]
	if r.lines != nil {
		r.lines(kind, text)
	}
	if r.sink == nil || r.wanted != nil && !r.wanted() {
		return
	}
	for line := range bytes.Lines(text) {
		r.sink(Line{Time: now, Stream: kind, Text: string(bytes.TrimSuffix(line, newline)), More: more})
	}
}

var newline = []byte{'\n'}

// setUnfinished records what was read of a line without its end.
func (r *recorder) setUnfinished(kind Stream, text []byte) {
	if r.partial == nil || len(text) == 0 {
		return
	}
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	b := &r.unfinished[kind-Stdout]
	b.text = append(b.text[:0], visible(text)...)
	if !b.timer {
		b.timer = true
		time.AfterFunc(partialTime, func() { r.emitUnfinished(kind) })
	}
}

// visible returns the part of a long line that is worth repeating: what has overwritten the
// rest, or else its beginning.
func visible(text []byte) []byte {
	if len(text) <= maxPartial {
		return text
	}
	end := text[len(text)-maxPartial:]
	if i := bytes.IndexByte(end, '\r'); i >= 0 {
		return end[i:]
	}
	return text[:maxPartial]
}

// emitUnfinished passes on an unfinished line, unless its end has come meanwhile.
func (r *recorder) emitUnfinished(kind Stream) {
	r.sinkMu.Lock()
	defer r.sinkMu.Unlock()
	b := &r.unfinished[kind-Stdout]
	b.timer = false
	if len(b.text) > 0 {
		text := bytes.ToValidUTF8(b.text, []byte("\uFFFD"))
		r.partial(Line{Time: time.Now(), Stream: kind, Text: string(text), Partial: true})
	}
}

// addTail adds the last of some lines to the tail, and looks at no others.
func (r *recorder) addTail(kind Stream, text []byte) {
	if r.tailSize <= 0 {
		return
	}
	text = bytes.TrimSuffix(text, newline)
	start := len(text)
	for range r.tailSize {
		if start = lastNewline(text[:start]); start < 0 {
			break
		}
	}
	r.tailMu.Lock()
	defer r.tailMu.Unlock()
	for line := range bytes.SplitSeq(text[start+1:], newline) {
		r.count++
		r.tails[kind-Stdout].add(r.count, line, r.tailSize)
	}
}

func (r *ring) add(number uint64, text []byte, keep int) {
	if len(r.lines) < keep {
		r.lines = append(r.lines, tailLine{})
		r.oldest = len(r.lines) - 1
	}
	l := &r.lines[r.oldest]
	r.oldest = (r.oldest + 1) % keep
	l.number = number
	if len(text) <= maxTailLine {
		l.text = append(l.text[:0], text...)
		return
	}
	l.text = append(append(l.text[:0], text[:wholeRunes(text[:maxTailLine])]...), "…"...)
}

// tail returns the tails of both streams in the order of arrival.
func (r *recorder) tail() []string {
	r.tailMu.Lock()
	defer r.tailMu.Unlock()
	all := slices.Concat(r.tails[0].lines, r.tails[1].lines)
	slices.SortFunc(all, func(a, b tailLine) int { return cmp.Compare(a.number, b.number) })
	texts := make([]string, len(all))
	for i, l := range all {
		texts[i] = string(l.text)
	}
	return texts
}
