package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Result is the result of a command that has ended.
type Result struct {
	Stdout, Stderr []byte // as they were written
	Exit           supervisor.Exit
}

// ErrTooMuchOutput is wrapped by the error of Run for a command that wrote more than allowed.
var ErrTooMuchOutput = errors.New("too much output")

// Run runs a command to its end. Stdin is input, or that of cmd if input is empty; the command
// need not read all of it. The Result has the exit: a command that fails is no error of Run.
//
// The error is that of Start, or the cause of ctx if that is done first. It wraps
// ErrTooMuchOutput if more than limit bytes were written to stdout or stderr. In the last two
// cases the process group is killed, and the Result has the output so far, at most limit bytes
// of each.
func Run(ctx context.Context, cmd Command, input string, limit int) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	flood := make(chan Stream, 1)
	var mu sync.Mutex // a command that cannot be killed may continue to write
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
	var in *os.File // writing end of stdin
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
		cmd.Stdin.Close() // so that a write fails when there is no reader
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			in.WriteString(input) // fails if the command ends before it has read all
			in.Close()
		}()
		defer func() {
			in.SetWriteDeadline(time.Unix(1, 0)) // an escaped descendant may have the other end open
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
		if !p.EndsWithin(supervisor.KillGrace) {
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
		case s := <-flood: // written right before the end
			failed = tooMuch(s, limit)
		default:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return Result{Stdout: slices.Clip(written[0]), Stderr: slices.Clip(written[1]), Exit: p.Exit()}, failed
}

func tooMuch(s Stream, limit int) error {
	return fmt.Errorf("%w: more than %d bytes on %v", ErrTooMuchOutput, limit, s)
}
