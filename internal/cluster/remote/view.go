package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// leaveTimeout bounds the time in which a node lets a viewer leave. Then another one may write.
const leaveTimeout = 2 * time.Second

// viewer is the side of a person in an Attach.
type viewer struct {
	a   runtime.Attachment
	out message.Writer
	nc  net.Conn

	mu     sync.Mutex
	leaves bool
	cause  error // why, if that is an error
}

// Attach is part of runtime.Session. It has a connection of its own.
func (s *session) Attach(ctx context.Context, a runtime.Attachment) error {
	if s.hasEnded() {
		return errEnded
	}
	ctx, cancel := s.r.both(ctx)
	defer cancel()
	opening, opened := context.WithTimeout(ctx, connectTimeout)
	nc, in, err := s.r.c.upgrade(opening, attachPath)
	opened()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: connecting to node %s: %w", runtime.ErrUnknown, s.r.c.o.Node, err)
	}
	defer nc.Close()
	v := &viewer{a: a, out: message.Writer{Conn: nc}, nc: nc}
	r := s.request(message.OpAttach)
	r.Input, r.Earlier = a.Input != nil, a.Earlier
	b, err := message.Encode(r)
	if err == nil {
		err = v.out.Send(b)
	}
	if err != nil {
		return fmt.Errorf("%w: %w to node %s: %w", runtime.ErrUnknown, errLost, s.r.c.o.Node, err)
	}
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
			cause = nil
		}
		v.leave(cause)
	})
	defer stop()
	over := make(chan struct{})
	var working sync.WaitGroup
	defer working.Wait()
	defer close(over)
	if a.Input != nil {
		go v.typing() // it ends with the input, or at its next read
		working.Go(func() { v.sizes(over) })
	}
	return v.receive(in, s.r.c.o.Node)
}

// leave ends the view. A node that does not answer to that is not waited for.
func (v *viewer) leave(cause error) {
	v.mu.Lock()
	first := !v.leaves
	if first {
		v.leaves, v.cause = true, cause
	}
	v.mu.Unlock()
	if first {
		_ = v.nc.SetReadDeadline(time.Now().Add(leaveTimeout)) // a closed connection ends it, too
		_ = v.out.Frame(message.FrameEnd, nil)
	}
}

func (v *viewer) left() (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leaves, v.cause
}

// receive writes the output of the terminal until the node ends the connection.
func (v *viewer) receive(in io.Reader, node string) error {
	for {
		kind, content, err := message.ReadFrame(in, message.MaxMessage)
		leaves, cause := v.left()
		switch {
		case leaves && (err != nil || kind == message.FrameEnd):
			return cause
		case leaves:
		case err != nil:
			return fmt.Errorf("%w: %w to node %s: %w", runtime.ErrUnknown, errLost, node, err)
		case kind == message.FrameData:
			if _, err := v.a.Output.Write(content); err != nil {
				v.leave(err)
			}
		case kind == message.FrameResize && v.a.Resized != nil:
			if size, ok := message.SizeOf(content); ok {
				v.a.Resized(size[0], size[1])
			}
		case kind == message.FrameEnd && len(content) == 0:
			return nil
		case kind == message.FrameEnd:
			f := new(message.Failure)
			if err := json.Unmarshal(content, f); err != nil {
				return fmt.Errorf("node %s has ended the connection with an unknown error: %w", node, err)
			}
			return f.Err()
		}
	}
}

// typing sends the input of a person. The end of the input ends the view.
func (v *viewer) typing() {
	buf := make([]byte, 4<<10)
	for {
		n, err := v.a.Input.Read(buf)
		if leaves, _ := v.left(); leaves {
			return
		}
		if n > 0 {
			if _, err := v.out.Write(buf[:n]); err != nil {
				return // the reader of the output gets an error, too
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			v.leave(err)
			return
		}
	}
}

func (v *viewer) sizes(over <-chan struct{}) {
	for {
		select {
		case size, ok := <-v.a.Sizes:
			if !ok || v.out.Resize(size[0], size[1]) != nil {
				return
			}
		case <-over:
			return
		}
	}
}
