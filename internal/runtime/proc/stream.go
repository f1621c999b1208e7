package proc

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

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
