package placing

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/coppice-dev/coppice/internal/runtime"
)

var _ runtime.FileReader = (*Runtime)(nil)

// ReadFile implements runtime.FileReader: it reads a file on the node where the last incarnation of the agent was
// started. If the number of an incarnation is 0, it is that one. What earlier incarnations have left on other nodes is
// not read.
func (r *Runtime) ReadFile(ctx context.Context, path string, incarnation uint64, name string) ([]byte, error) {
	place, ok := r.places.Of(path)
	if !ok || place.Kind != r.Kind() || incarnation != 0 && incarnation != place.Incarnation {
		return nil, fmt.Errorf("%s: no node has files of it: %w", path, fs.ErrNotExist)
	}
	if _, lost := r.places.ending(place); lost {
		return nil, fmt.Errorf("%s: %w: node %s", path, runtime.ErrNodeLost, place.Node)
	}
	files, ok := r.at(place.Node).(runtime.FileReader)
	if !ok {
		return nil, fmt.Errorf("files of %s on node %s: %w: %w", path, place.Node, runtime.ErrUnsupported,
			fs.ErrNotExist)
	}
	held, cancel := r.places.whileHeld(ctx, place)
	defer cancel()
	data, err := files.ReadFile(held, path, place.Incarnation, name)
	if _, lost := r.places.ending(place); err != nil && lost {
		return nil, fmt.Errorf("%s: %w: node %s", path, runtime.ErrNodeLost, place.Node)
	}
	return data, err
}
