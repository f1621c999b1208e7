package shim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

var (
	_ runtime.FileReader = (*Runtime)(nil)

	errNoFiles = errors.New("this runtime has no directory for the files of agents")
)

// ReadFile is part of runtime.FileReader.
func (r *Runtime) ReadFile(_ context.Context, path string, incarnation uint64, name string) ([]byte, error) {
	if r.files == "" {
		return nil, fmt.Errorf("%w: %w", runtime.ErrUnsupported, errNoFiles)
	}
	return r.files.Read(path, incarnation, name)
}

// withFiles returns a launch as the shim gets it, and the files that are written before.
func (s *slot) withFiles(l runtime.Launch) (runtime.Launch, *runtime.Files, error) {
	files := l.Files
	if l.Files = nil; files == nil {
		return l, nil, nil
	}
	if s.r.files == "" {
		return l, nil, fmt.Errorf("%w: %w", proc.ErrCommand, errNoFiles)
	}
	l.Env = append(slices.Clip(l.Env), proc.EnvFiles+"="+s.r.files.Of(s.path))
	return l, files, nil
}

// writeFiles writes the files of an incarnation that is about to start.
func (s *slot) writeFiles(incarnation uint64, files *runtime.Files) error {
	if files == nil {
		return nil
	}
	if err := s.r.files.Write(s.path, incarnation, *files); err != nil {
		return fmt.Errorf("%w: %w", proc.ErrCommand, err)
	}
	return nil
}

// removeFiles removes the files of the agent, whose slot was removed.
func (s *slot) removeFiles() error {
	if s.r.files == "" {
		return nil
	}
	return s.r.files.Remove(s.path)
}
