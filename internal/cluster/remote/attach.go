package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// attach connects a client with a terminal. The first frame is the request.
func (s *Server) attach(nc net.Conn, r *http.Request, buffered reader) {
	var req message.Request
	if _, err := message.Read(buffered, &req); err != nil || req.Op != message.OpAttach {
		return
	}
	_ = nc.SetDeadline(time.Time{}) // a closed connection fails below
	ctx, cancel := context.WithCancel(s.ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	defer nc.Close()
	working.Go(func() { s.guard(ctx, nc, r) })
	out := &message.Writer{Conn: nc}
	in := &typed{ctx: ctx, sizes: make(chan [2]uint16, 1)}
	if req.Input {
		in.frames = make(chan []byte, maxTyped)
	}
	working.Go(func() {
		if !in.receive(buffered) {
			cancel()
		}
	})
	end := message.NewFailure(s.join(ctx, &req, in, out))
	var content []byte
	if end != nil {
		content, _ = json.Marshal(end) // strings and numbers
	}
	_ = out.Frame(message.FrameEnd, content) // the client may be gone
}

// join attaches to a session.
func (s *Server) join(ctx context.Context, req *message.Request, in *typed, out *message.Writer) error {
	if req.Input {
		if err := s.check(ctx, req.Fence); err != nil {
			return err
		}
	}
	h, err := s.lookup(ctx, req.Ref)
	if err != nil {
		return err
	}
	a := runtime.Attachment{
		Output: out, Sizes: in.sizes, Earlier: req.Earlier,
		Resized: func(rows, cols uint16) { _ = out.Resize(rows, cols) }, // the next output fails, too
	}
	if req.Input {
		a.Input = in
	}
	return h.session.Attach(ctx, a)
}

// maxTyped is the number of frames of input that the agent has not read yet.
const maxTyped = 64

// typed is the input of a client.
type typed struct {
	ctx    context.Context
	sizes  chan [2]uint16 // has room for one
	frames chan []byte    // nil if the client only watches
	rest   []byte         // of the last frame
}

// receive passes on what is typed. It returns false when the client leaves or is gone, or the agent does not read.
func (t *typed) receive(r io.Reader) bool {
	for {
		kind, content, err := message.ReadFrame(r, message.MaxData)
		switch {
		case err != nil || kind == message.FrameEnd:
			return false
		case kind == message.FrameData && t.frames != nil && len(content) > 0:
			late := time.NewTimer(silence)
			select {
			case t.frames <- bytes.Clone(content):
				late.Stop()
			case <-t.ctx.Done():
				late.Stop()
				return true
			case <-late.C: // waiting longer would hide that the client leaves
				return false
			}
		case kind == message.FrameResize:
			if size, ok := message.SizeOf(content); ok {
				select {
				case <-t.sizes: // which was not received yet
				default:
				}
				t.sizes <- size
			}
		}
	}
}

// Read returns what was typed.
func (t *typed) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		select {
		case t.rest = <-t.frames:
		case <-t.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
