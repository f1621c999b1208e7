package proc

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Output says where the lines of a process go.
type Output struct {
	// Line is called for each line, one at a time. While it blocks, nothing
	// is read, the pipe fills and the process has to wait when it writes: no
	// line is lost and nothing else is delayed. Nil: only the tail is kept.
	Line func(Line)

	// Wanted reports whether Line has to be called at present; nil: always. It is
	// asked once for what was read at once.
	Wanted func() bool

	// Lines is called with the same as Line, but once for all lines that were read
	// at once: each ends with a line feed, a part of one that is too long does
	// not. It is called before Line, with the rules of Line, and must not keep text.
	Lines func(s Stream, text []byte)

	// Raw is called with what was read before it is cut into lines, as it
	// was written, and with the rules of Line. It must not keep data.
	Raw func(s Stream, data []byte)

	// Partial is called with what there is of a line whose end was not written
	// yet, such as a progress bar, soon after it was read and whenever there is more
	// of it, but not for each read. It has the rules of Line, which gets the line as a
	// whole in the end. May be nil.
	Partial func(Line)

	// Tail is how many of the last lines of stdout and of stderr are kept;
	// DefaultTail if zero, none if negative.
	Tail int
}

// Bounds of what is kept of the output.
const (
	DefaultTail = 20       // lines
	MaxLine     = 64 << 10 // bytes; longer lines come in parts
	maxTailLine = 2 << 10  // bytes of each line in the tail
	maxPartial  = 4 << 10  // bytes of a line without its end
)

// Line is one line of output, or a part of one that is too long.
type Line struct {
	Time   time.Time // when it was read
	Stream Stream
	// Text is valid UTF-8 (what was not is replaced by U+FFFD) without the
	// line end. It may contain escape sequences: see Plain.
	Text string
	// More: the line was cut at MaxLine bytes and goes on in the next Line of the same stream.
	More bool
	// Partial: the end of the line has not been written yet. It comes again, and as a
	// whole in the end; Text is a part of it where it is long.
	Partial bool
}

// Stream is where a line was written to.
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

// Times of the drain after the exit of the leader.
const (
	flushTimeout = 50 * time.Millisecond  // that Done waits for a slow Output.Line
	lingerIdle   = 200 * time.Millisecond // without output, while somebody still holds the pipe
	lingerMax    = time.Second            // in all
	maxFlush     = 1 << 20                // bytes; a pipe does not hold more
)

// partialTime is the time between two calls of Output.Partial for a stream.
const partialTime = 100 * time.Millisecond

// recorder passes the lines of both streams on, one at a time.
type recorder struct {
	sink   func(Line)
	wanted func() bool
	lines  func(Stream, []byte)
	raw    func(Stream, []byte)
	sinkMu sync.Mutex

	partial    func(Line)
	unfinished [2]unfinishedLine // lines, by stream; guarded by sinkMu

	// The tails have a lock of their own: they must be readable while sink blocks.
	tailMu   sync.Mutex
	tailSize int
	tails    [2]ring // one for each stream: a flood on one must not wash away the last words on the other
	count    uint64
}

// begun is a line whose end was not read yet.
type unfinishedLine struct {
	text  []byte
	timer bool // it is passed on soon
}

// ring holds the last lines of a stream.
type ring struct {
	lines  []tailLine
	oldest int
}

type tailLine struct {
	number uint64 // among the lines of both streams
	text   []byte // its own, used again for a later line
}

func newRecorder(o Output) *recorder {
	r := &recorder{sink: o.Line, wanted: o.Wanted, lines: o.Lines, raw: o.Raw, partial: o.Partial, tailSize: o.Tail}
	if o.Tail == 0 {
		r.tailSize = DefaultTail
	}
	return r
}

// pass passes on lines that were read at once, or a part of one (more).
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

// begin notes what was read of a line without its end.
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

// visible is what matters of a line that is too long to be passed on again and
// again: what has overwritten the rest, or else its beginning.
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

// emitUnfinished passes on a line without its end, unless that has come meanwhile.
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

// remember keeps the last of some lines, and looks at no others.
func (r *recorder) addTail(kind Stream, text []byte) {
	if r.tailSize <= 0 {
		return
	}
	text = bytes.TrimSuffix(text, newline)
	start := len(text)
	for range r.tailSize {
		if start = bytes.LastIndexByte(text[:start], '\n'); start < 0 {
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

// last returns the tails of both streams in the order of their arrival.
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

// stream pumps one pipe.
type stream struct {
	kind    Stream
	r       *os.File
	out     *recorder
	split   splitter
	flushed chan struct{} // closed when what was written before the exit has been passed on
}

func newStream(kind Stream, r *os.File, out *recorder) *stream {
	return &stream{kind: kind, r: r, out: out, flushed: make(chan struct{})}
}

// settle waits until the streams have passed on what is in their pipes now,
// for flushTimeout at most. A deadline in the past wakes up the pumps: the exit
// was seen, from now on they take what is there.
func flush(streams []*stream) {
	for _, s := range streams {
		select {
		case <-s.flushed:
		default:
			s.r.SetReadDeadline(time.Unix(1, 0))
		}
	}
	late := time.After(flushTimeout)
	for _, s := range streams {
		select {
		case <-s.flushed:
		case <-late:
			return
		}
	}
}

// pump reads until the end of the pipe, or, once the exit was seen, until
// nothing more is to be expected. It owns the reading end.
func (s *stream) pump() {
	defer s.r.Close()
	open := s.read(func() error { return nil })
	if open {
		open = s.readPresent()
	}
	s.split.finish(s.emitter(time.Now()))
	close(s.flushed)
	if !open {
		return
	}
	// Somebody else holds the pipe: a descendant that is dying, or one that escaped.
	end := time.Now().Add(lingerMax)
	s.read(func() error {
		wait := min(lingerIdle, time.Until(end))
		if wait <= 0 {
			return os.ErrDeadlineExceeded
		}
		return s.r.SetReadDeadline(time.Now().Add(wait))
	})
	s.split.finish(s.emitter(time.Now()))
}

// read passes on what comes until the pipe ends or a deadline expires, and
// reports whether it is the latter. before is called before each read.
func (s *stream) read(before func() error) (open bool) {
	for {
		if err := before(); err != nil {
			return true
		}
		n, err := s.r.Read(s.split.space())
		s.handle(n)
		if err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// readPresent passes on what is in the pipe, without waiting for more, and
// reports whether somebody can still write to it.
func (s *stream) readPresent() (open bool) {
	rc, err := s.r.SyscallConn()
	if err != nil {
		return false
	}
	for total := 0; total < maxFlush; {
		var n int
		var rerr error
		if err := rc.Control(func(fd uintptr) { n, rerr = syscall.Read(int(fd), s.split.space()) }); err != nil {
			return false
		}
		switch {
		case errors.Is(rerr, syscall.EINTR):
			continue
		case rerr != nil:
			return errors.Is(rerr, syscall.EAGAIN)
		case n == 0:
			return false
		}
		total += n
		s.handle(n)
	}
	return true
}

// took passes on n bytes that were read into the splitter's space.
func (s *stream) handle(n int) {
	if n > 0 && s.out.raw != nil {
		s.out.sinkMu.Lock()
		s.out.raw(s.kind, s.split.space()[:n])
		s.out.sinkMu.Unlock()
	}
	s.split.consume(n, s.emitter(time.Now()))
	s.out.setUnfinished(s.kind, s.split.buf)
}

func (s *stream) emitter(now time.Time) func(text []byte, more bool) {
	return func(text []byte, more bool) { s.out.emit(now, s.kind, text, more) }
}
