package remote

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// fileTimeout bounds a request for a file: a start may wait for it.
const fileTimeout = 5 * time.Second

var _ runtime.FileReader = (*Runtime)(nil)

// maxFile bounds a file that is sent, in bytes: with it, a message is less than message.MaxMessage.
const maxFile = 8 << 20

// ReadFile is part of runtime.FileReader.
func (r *Runtime) ReadFile(ctx context.Context, path string, incarnation uint64, name string) ([]byte, error) {
	req, err := r.request(message.OpFile, path)
	if err != nil {
		return nil, err
	}
	req.Fence, req.Incarnation, req.Name = nil, incarnation, name
	ctx, cancel := r.both(ctx)
	defer cancel()
	ctx, late := context.WithTimeoutCause(ctx, fileTimeout,
		fmt.Errorf("%w: node %s has not answered within %v", runtime.ErrUnknown, r.c.o.Node, fileTimeout))
	defer late()
	a, err := r.c.ask(ctx, req, true, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the file %.80q of %s on node %s: %w", name, path, r.c.o.Node, err)
	case len(a.Data) > maxFile:
		return nil, fmt.Errorf("node %s has sent a file of %d bytes, expected at most %d", r.c.o.Node, len(a.Data),
			maxFile)
	}
	return a.Data, nil
}

// readFile reads a file of an agent.
func (s *Server) readFile(ctx context.Context, req *message.Request) ([]byte, error) {
	r, err := s.runtime(req.Kind)
	if err != nil {
		return nil, err
	}
	files, ok := r.(runtime.FileReader)
	if !ok {
		return nil, fmt.Errorf("%w: agents have no files in the runtime %s: %w", runtime.ErrUnsupported, req.Kind,
			fs.ErrNotExist)
	}
	data, err := files.ReadFile(ctx, req.Path, req.Incarnation, req.Name)
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file %.80q has %d bytes, expected at most %d", req.Name, len(data), maxFile)
	}
	return data, err
}
