package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/token"
)

// lastLines is how many of the last lines are read if it is not known since when.
const lastLines = 5000

// Live calls line with each line that an incarnation has written since a time, and then with each that it writes. It
// returns when the incarnation has ended, or ctx. The session reports that there is more, so nothing is polled; nil
// means that the incarnation has ended. While its node does not answer, the lines wait there.
func (s *Service) Live(
	ctx context.Context, who token.Caller, since time.Time, session runtime.Session, line func(string),
) error {
	start := logfile.Start{Since: since, Lines: lastLines}
	tail, err := s.reader(ctx, who.Path, start)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", who.Path, err)
	}
	defer tail.Close()
	emit := func(l logfile.Line) {
		if l.Between == nil && l.Incarnation == who.Incarnation {
			line(l.Text)
		}
	}
	var failed error
	read := func() {
		if failed == nil || errors.Is(failed, runtime.ErrUnknown) {
			failed = next(tail, emit)
		}
	}
	if session == nil {
		read()
	} else {
		err = session.Follow(ctx, read)
	}
	if ctx.Err() != nil && errors.Is(failed, context.Cause(ctx)) {
		failed = nil
	}
	if err = errors.Join(err, failed); err == nil && ctx.Err() == nil {
		tail.Rest(emit)
	}
	return err
}

// reader opens the log of an agent on the node where it was started last.
func (s *Service) reader(ctx context.Context, path string, start logfile.Start) (logfile.Reader, error) {
	if far, ok := s.currentLog(path); ok {
		return far.Open(ctx, start), nil
	}
	file, err := s.file(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return logfile.Open(file, start)
}

const (
	maxPeek      = 10_000 // lines of Last
	maxPeekParts = 100    // that are read for it, because a log may grow faster than it is read
	peekTimeout  = 5 * time.Second
)

// lastOf returns the last lines of a log on another node, without escape sequences.
func lastOf(far logfile.NodeLog, n int) ([]string, error) {
	if n = min(n, maxPeek); n <= 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), peekTimeout)
	defer cancel()
	r := far.Open(ctx, logfile.Start{Lines: n})
	defer r.Close()
	var lines []string
	add := logfile.Texts(func(text string) { lines = append(lines, plaintext.Line(text)) })
	more := true
	for parts := 0; more && parts < maxPeekParts; parts++ {
		var err error
		if more, err = r.Some(add); err != nil {
			return nil, err
		}
	}
	r.Rest(add)
	if len(lines) == 0 && r.Mark().Inode == 0 {
		return nil, fs.ErrNotExist
	}
	return lines[max(0, len(lines)-n):], nil
}
