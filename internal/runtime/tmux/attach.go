package tmux

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// leaveTimeout is the time that a client of tmux has to restore the person's terminal before it
// is killed.
const leaveTimeout = time.Second

// AttachCommand returns the command that attaches a person's terminal to the session of an agent
// with all features of tmux, and the directory to run it in.
func (r *Runtime) AttachCommand(path string) (argv []string, dir string, err error) {
	s, err := r.Get(path)
	if err != nil {
		return nil, "", err
	}
	if socket := filepath.Join(r.Dir, socketName); len(socket) < 100 {
		return []string{"tmux", "-S", socket, "attach-session", "-t", "=" + s.name}, "", nil
	}
	return []string{"tmux", "-S", socketName, "attach-session", "-t", "=" + s.name}, r.Dir, nil
}

// Attach connects a person through a client of tmux. The keys of tmux work; detaching ends the
// Attach.
func (ses *session) Attach(ctx context.Context, a runtime.Attachment) error {
	if ses.hasEnded() {
		return runtime.ErrEnded
	}
	if a.Input != nil {
		select {
		case ses.slot.writer <- struct{}{}:
			defer func() { <-ses.slot.writer }()
		default:
			return runtime.ErrWriter
		}
	}
	args := []string{"attach-session", "-t", ses.rec.Pane}
	if a.Input == nil {
		args = append(args, "-f", "read-only,ignore-size")
	}
	p := ses.info(ctx)
	if p == nil {
		if ses.hasEnded() {
			return runtime.ErrEnded
		}
		return runtime.ErrUnknown
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ses.slot.r.Ctx, func() { cancel(slots.ErrClosed) })
	defer stop()
	cmd := ses.slot.r.command(context.Background(), args...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(p.height), Cols: uint16(p.width)})
	if err != nil {
		return ses.commandError(err)
	}
	if a.Resized != nil {
		a.Resized(uint16(p.height), uint16(p.width)) // that of the client, which shows a part of a larger window
	}
	return ses.attached(ctx, cancel, cmd, terminal, a)
}

var errInputEnded = errors.New("input has ended")

// attached copies data between a person and a client of tmux until one of them ends.
func (ses *session) attached(ctx context.Context, cancel context.CancelCauseFunc, cmd *exec.Cmd, terminal *os.File,
	a runtime.Attachment) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	gone := make(chan struct{})
	wg.Go(func() { // asks the client to leave
		select {
		case <-gone:
			return
		case <-ctx.Done():
		case <-ses.done:
		}
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(leaveTimeout):
			cmd.Process.Kill()
		}
	})
	if a.Input != nil {
		go ses.typing(ctx, cancel, terminal, a.Input) // until the reader of the person's terminal returns
	}
	if a.Sizes != nil {
		wg.Go(func() {
			for {
				select {
				case s, ok := <-a.Sizes:
					if !ok {
						return
					}
					pty.Setsize(terminal, &pty.Winsize{Rows: s[0], Cols: s[1]})
				case <-gone:
					return
				}
			}
		})
	}
	_, err := io.Copy(a.Output, terminal)
	if errors.Is(err, syscall.EIO) { // the other side of the terminal is closed
		err = nil
	}
	if err != nil {
		cancel(err)
	}
	werr := cmd.Wait()
	close(gone)
	wg.Wait()
	terminal.Close()
	cause := context.Cause(ctx)
	switch {
	case err != nil:
		return err
	case errors.Is(cause, errInputEnded), errors.Is(cause, context.Canceled),
		errors.Is(cause, context.DeadlineExceeded):
		return nil
	case cause != nil:
		return cause
	case ses.hasEnded():
		return nil
	}
	return ses.commandError(werr)
}

// typing passes on the input of a person.
func (ses *session) typing(ctx context.Context, cancel context.CancelCauseFunc, terminal *os.File, in io.Reader) {
	buf := make([]byte, 4<<10)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		if n > 0 && ctx.Err() == nil {
			ses.mu.Lock()
			ses.input = time.Now()
			ses.mu.Unlock()
			if _, werr := terminal.Write(buf[:n]); werr != nil {
				return
			}
		}
		switch {
		case err == io.EOF:
			cancel(errInputEnded)
			return
		case err != nil:
			cancel(err)
			return
		}
	}
}
