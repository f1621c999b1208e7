package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// liveLines is how many of the lines that an incarnation has written before are read first.
const liveLines = 1000

// Live calls line with each line that an incarnation writes, and with the last ones that it has written before. It
// returns when the incarnation has ended, or ctx. The session reports that there is more, so nothing is polled.
func (s *Service) Live(
	ctx context.Context, path string, incarnation uint64, session runtime.Session, line func(string),
) error {
	file, err := s.file(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tail, err := logfile.Last(file, liveLines)
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", path, err)
	}
	defer tail.Close()
	var failed error
	err = session.Follow(ctx, func() {
		if failed != nil {
			return
		}
		failed = tail.Next(func(l logfile.Line) {
			if l.Between == nil && l.Incarnation == incarnation {
				line(l.Text)
			}
		})
	})
	return errors.Join(err, failed)
}
