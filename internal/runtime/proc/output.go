package proc

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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

// Times and sizes of the drain after the exit of the leader.
const (
	flushTimeout = 50 * time.Millisecond  // that Done waits for a slow Output.Line
	flushMax     = 2 * time.Second        // that Done waits on a machine that has no time to read
	lingerIdle   = 200 * time.Millisecond // without output, while another process has the pipe open
	lingerMax    = time.Second            // in total
	maxFlush     = 1 << 20                // bytes; a pipe holds no more
)

// busyReads is the number of reads after which a stream whose pipe is never empty gives way to
// others after each read.
const busyReads = 4

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

// stream reads one pipe.
type stream struct {
	kind    Stream
	r       *os.File
	out     *recorder
	split   splitter
	busy    int // number of reads since the pipe was empty
	yielder yielder
	flushed chan struct{} // closed when all output from before the exit was passed on
	handing atomic.Int64  // when it began to pass on what it reads, in Unix nanoseconds; 0 if it does not
}

// isSlow reports whether the stream has been passing on what it has read for as long as Done waits for that.
func (s *stream) isSlow(now time.Time) bool {
	since := s.handing.Load()
	return since > 0 && now.UnixNano()-since >= int64(flushTimeout)
}

func newStream(kind Stream, r *os.File, out *recorder) *stream {
	return &stream{kind: kind, r: r, out: out, flushed: make(chan struct{})}
}

// flush waits until the streams have passed on what is in their pipes now. An expired read deadline wakes the readers:
// the process has exited, so they read only what is there. It gives up on a stream whose output is not taken within
// flushTimeout, and not on one that the machine has no time to read.
func flush(streams []*stream) {
	for _, s := range streams {
		select {
		case <-s.flushed:
		default:
			s.r.SetReadDeadline(time.Unix(1, 0))
		}
	}
	look := time.NewTicker(flushTimeout)
	defer look.Stop()
	end := time.Now().Add(flushMax)
	for _, s := range streams {
		for flushed := false; !flushed; {
			select {
			case <-s.flushed:
				flushed = true
			case now := <-look.C:
				if s.isSlow(now) || now.After(end) {
					return
				}
			}
		}
	}
}

// pump reads until the end of the pipe. Once the process has exited, it stops when no more
// output is expected. It owns the reading end.
func (s *stream) pump() {
	defer s.r.Close()
	defer s.yielder.close()
	open := s.read(func() error { return nil })
	if open {
		open = s.readPresent()
	}
	s.finish()
	close(s.flushed)
	if !open {
		return
	}
	// Another process has the pipe open: a descendant that is dying, or one that escaped.
	end := time.Now().Add(lingerMax)
	s.read(func() error {
		wait := min(lingerIdle, time.Until(end))
		if wait <= 0 {
			return os.ErrDeadlineExceeded
		}
		return s.r.SetReadDeadline(time.Now().Add(wait))
	})
	s.finish()
}

// read passes on output until the pipe ends or a deadline expires, and reports whether the
// deadline did. before is called before each read.
func (s *stream) read(before func() error) (open bool) {
	rc, err := s.r.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	var rerr error
	readNow := func(fd uintptr) (done bool) { // called again when there is something to read
		n, rerr = s.readNow(fd)
		return !errors.Is(rerr, syscall.EAGAIN)
	}
	for {
		if err := before(); err != nil {
			return true
		}
		if err := rc.Read(readNow); err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
		if rerr != nil || n == 0 {
			return false
		}
		s.handle(n)
		if s.busy++; s.busy >= busyReads {
			s.yielder.yield()
		}
	}
}

// readNow reads what is there. It fails with EAGAIN if that is nothing, and returns 0 at the end.
func (s *stream) readNow(fd uintptr) (n int, err error) {
	for {
		n, err = s.split.read(func(b []byte) (int, error) { return syscall.Read(int(fd), b) })
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			s.split.pause()
			s.busy = 0
			s.yielder.close()
		}
		return max(0, n), err
	}
}

// readPresent passes on what is in the pipe without waiting for more. It reports whether a
// process can still write to it.
func (s *stream) readPresent() (open bool) {
	rc, err := s.r.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	var rerr error
	readNow := func(fd uintptr) { n, rerr = s.readNow(fd) }
	for total := 0; total < maxFlush; {
		if err := rc.Control(readNow); err != nil {
			return false
		}
		if rerr != nil {
			return errors.Is(rerr, syscall.EAGAIN)
		}
		if n == 0 {
			return false
		}
		total += n
		s.handle(n)
	}
	return true
}

// handle passes on n bytes that were read into the splitter's space.
func (s *stream) handle(n int) {
	s.handing.Store(time.Now().UnixNano())
	defer s.handing.Store(0)
	if n > 0 && s.out.raw != nil {
		s.out.sinkMu.Lock()
		s.out.raw(s.kind, s.split.space()[:n])
		s.out.sinkMu.Unlock()
	}
	s.split.consume(n, s.emitter(time.Now()))
	s.out.setUnfinished(s.kind, s.split.unfinished())
}

// finish passes on a last line without an end.
func (s *stream) finish() {
	s.handing.Store(time.Now().UnixNano())
	defer s.handing.Store(0)
	s.split.finish(s.emitter(time.Now()))
}

func (s *stream) emitter(now time.Time) func(text []byte, more bool) {
	return func(text []byte, more bool) { s.out.emit(now, s.kind, text, more) }
}
