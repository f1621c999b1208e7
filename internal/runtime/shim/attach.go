package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// dial makes a separate connection for an Attach or Follow, so that a slow person never delays
// the session. It is closed when ctx is done.
func (ses *session) dial(ctx context.Context, m wire.Message) (*conn, func(), error) {
	if ses.hasEnded() {
		return nil, nil, runtime.ErrEnded
	}
	l, err := dialAlone(ctx, ses.slot.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	}
	m.Incarnation = ses.number
	if err := l.askAlone(&m); err != nil {
		if errors.Is(err, errLinkLost) {
			err = fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		}
		return nil, nil, err
	}
	stop1 := context.AfterFunc(ctx, func() { l.c.Close() })
	stop2 := context.AfterFunc(ses.slot.r.Ctx, func() { l.c.Close() })
	return l, func() { stop1(); stop2(); l.c.Close() }, nil
}

// errInputEnded ends an Attach.
var errInputEnded = errors.New("input has ended")

// Attach is part of runtime.Session.
func (ses *session) Attach(ctx context.Context, a runtime.Attachment) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, leave, err := ses.dial(ctx, wire.Message{Type: wire.Attach, Writer: a.Input != nil, Earlier: a.Earlier})
	if err != nil {
		return err
	}
	defer leave()
	if a.Input != nil {
		go ses.typing(ctx, cancel, l, a.Input)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel(nil)
		wg.Go(func() { ses.sizes(ctx, l, a.Sizes) })
	}
	for {
		m, err := l.r.Read()
		switch {
		case ctx.Err() != nil:
			if cause := context.Cause(ctx); !errors.Is(cause, errInputEnded) && !errors.Is(cause, context.Canceled) &&
				!errors.Is(cause, context.DeadlineExceeded) {
				return cause
			}
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the shim has closed it, because it has ended or because the output "+
				"was not read fast enough", errLinkLost)
		case err != nil:
			return fmt.Errorf("%w: %w", errLinkLost, err)
		case m.Type == wire.Ended:
			return nil
		case m.Type == wire.Error:
			return m.Failure.Err()
		case m.Type == wire.Resize && a.Resized != nil:
			a.Resized(m.Rows, m.Cols)
		case m.Type == wire.Output:
			if _, err := a.Output.Write(m.Data); err != nil {
				return err
			}
		}
	}
}

// typing sends the input of a person.
func (ses *session) typing(ctx context.Context, cancel context.CancelCauseFunc, l *conn, in io.Reader) {
	buf := make([]byte, 4<<10)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		if n > 0 && ctx.Err() == nil {
			if err := l.send(&wire.Message{Type: wire.Input, Incarnation: ses.number, Data: buf[:n]}); err != nil {
				return // the reader of the output gets an error, too
			}
		}
		if err == io.EOF {
			cancel(errInputEnded)
			return
		}
		if err != nil {
			cancel(err)
			return
		}
	}
}

func (ses *session) sizes(ctx context.Context, l *conn, sizes <-chan [2]uint16) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			l.send(&wire.Message{Type: wire.Resize, Incarnation: ses.number, Rows: size[0], Cols: size[1]})
		case <-ctx.Done():
			return
		}
	}
}

// Peek reads the log file, which exists as long as the slot does.
func (ses *session) Peek(ctx context.Context, n int) ([]string, error) {
	lines, err := logfile.Peek(filepath.Join(ses.slot.dir, logfile.Name), n)
	return lines, errors.Join(err, ctx.Err())
}

// Follow is part of runtime.Session.
func (ses *session) Follow(ctx context.Context, grew func()) error {
	for {
		ended, err := ses.follow(ctx, grew)
		switch {
		case ctx.Err() != nil:
			return nil
		case ses.slot.r.Ctx.Err() != nil:
			return slots.ErrClosed
		case ended || errors.Is(err, runtime.ErrEnded) || errors.Is(err, runtime.ErrStale):
			grew()
			return nil
		case err != nil && !errors.Is(err, runtime.ErrUnknown):
			return err
		}
		grew()
		select {
		case <-time.After(time.Second):
		case <-ses.done:
		case <-ctx.Done():
		case <-ses.slot.r.Ctx.Done():
		}
	}
}

func (ses *session) follow(ctx context.Context, grew func()) (ended bool, err error) {
	l, leave, err := ses.dial(ctx, wire.Message{Type: wire.Follow})
	if err != nil {
		return false, err
	}
	defer leave()
	for {
		m, err := l.r.Read()
		if err != nil {
			return false, fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		}
		switch m.Type {
		case wire.Grew:
			grew()
		case wire.Ended:
			return true, nil
		}
	}
}

// Unfinished is part of runtime.Unfinished.
func (ses *session) Unfinished(ctx context.Context, f func(text string)) error {
	l, leave, err := ses.dial(ctx, wire.Message{Type: wire.Unfinished})
	if err != nil {
		return err // also if the shim is too old for it
	}
	defer leave()
	for {
		m, err := l.r.Read()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
		case m.Type == wire.Output:
			f(string(m.Data))
		case m.Type == wire.Ended:
			return nil
		}
	}
}
