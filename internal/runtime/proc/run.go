package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Result is what a command has left that was run to its end.
type Result struct {
	Stdout, Stderr []byte // as they were written
	Exit           supervisor.Exit
}

// ErrTooMuchOutput is wrapped by the error of Run for a command that wrote
// more than it was allowed to.
var ErrTooMuchOutput = errors.New("too much output")

// Run runs a command to its end, for a caller that waits for its answer. Stdin
// is input (that of cmd if there is none); what the command does not read of it
// is no error. How it ended is in the Result: a failure of the command is no
// error of Run.
//
// The error is that of Start; or the cause of ctx, when that is done first; or
// one that wraps ErrTooMuchOutput, when more than limit bytes were written to
// stdout or to stderr. The last two come with what was written so far, at most
// limit bytes of each, and with the process group killed.
func Run(ctx context.Context, cmd Command, input string, limit int) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	flood := make(chan Stream, 1)
	var mu sync.Mutex // a command that cannot be killed may go on writing
	var written [2][]byte
	out := Output{Raw: func(s Stream, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		w := &written[s-Stdout]
		if room := limit - len(*w); len(data) > room {
			data = data[:room]
			select {
			case flood <- s:
			default:
			}
		}
		*w = append(*w, data...)
	}}
	var in *os.File // the end of stdin that is written to
	if input != "" {
		r, w, err := os.Pipe()
		if err != nil {
			return Result{}, fmt.Errorf("making a pipe for stdin: %w", err)
		}
		defer r.Close()
		cmd.Stdin, in = r, w
	}
	p, err := Start(cmd, out)
	if err != nil {
		if in != nil {
			in.Close()
		}
		return Result{}, err
	}
	if in != nil {
		cmd.Stdin.Close() // so that a write fails once there is no reader
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			in.WriteString(input) // the command may end without having read all
			in.Close()
		}()
		defer func() {
			in.SetWriteDeadline(time.Unix(1, 0)) // a descendant that escaped may hold the other end
			<-fed
		}()
	}

	var failed error
	select {
	case <-p.Done():
	case s := <-flood:
		failed = tooMuch(s, limit)
	case <-ctx.Done():
		failed = context.Cause(ctx)
	}
	if failed != nil {
		p.Kill()
		if !p.endsWithin(supervisor.KillGrace) {
			failed = fmt.Errorf("%w; process %d has not ended %v after SIGKILL", failed, p.PID(),
				supervisor.KillGrace)
		}
	}
	select {
	case <-p.Drained():
	case <-time.After(supervisor.KillGrace):
	}
	if failed == nil {
		select {
		case s := <-flood: // written just before the end
			failed = tooMuch(s, limit)
		default:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return Result{Stdout: written[0], Stderr: written[1], Exit: p.Exit()}, failed
}

func tooMuch(s Stream, limit int) error {
	return fmt.Errorf("%w: more than %d bytes on %v", ErrTooMuchOutput, limit, s)
}
