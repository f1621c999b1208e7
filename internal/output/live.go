package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/token"
)

// lastLines is how many of the last lines are read if it is not known since when.
const lastLines = 5000

// Live calls line with each line that an incarnation has written since a time, and then with each that it writes. It
// returns when the incarnation has ended, or ctx. The session reports that there is more, so nothing is polled; nil
// means that the incarnation has ended.
func (s *Service) Live(
	ctx context.Context, who token.Caller, since time.Time, session runtime.Session, line func(string),
) error {
	file, err := s.file(who.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var tail *logfile.Tail
	if since.IsZero() {
		tail, err = logfile.Last(file, lastLines)
	} else {
		tail, err = logfile.Since(file, since)
	}
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
		if failed == nil {
			failed = tail.Next(emit)
		}
	}
	if session == nil {
		read()
	} else {
		err = session.Follow(ctx, read)
	}
	if err = errors.Join(err, failed); err == nil && ctx.Err() == nil {
		tail.Rest(emit)
	}
	return err
}
