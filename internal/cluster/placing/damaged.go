package placing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	pathpkg "path"
	"strings"

	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
)

// DamagedError reports a record of a place that cannot be used. To ignore it could start the agent twice.
type DamagedError struct {
	Path string // of the agent
	err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the record of where %[1]s runs is damaged: %[2]v; it may run somewhere, and is not started "+
		"until the record is removed: end it on all nodes, such as by coppice down, and then etcdctl del "+
		"PREFIX/k/%[3]s/%[1]s, with the PREFIX in the URL of the store", e.Path, e.err, Prefix)
}

func (e *DamagedError) Unwrap() error { return e.err }

// decode reads the record of a place. The error is a *DamagedError.
func decode(r store.Record) (place Place, err error) {
	path := strings.TrimPrefix(r.Key, Prefix+"/")
	err = json.Unmarshal(r.Value, &place)
	switch {
	case err != nil:
		err = fmt.Errorf("expected a place in JSON, have %.40q", r.Value)
	case place.Path != path:
		err = fmt.Errorf("it is that of %.100q", place.Path)
	case place.Epoch == 0 || place.Kind == "":
		err = errors.New("the lease of the node, or the kind of the runtime, is missing")
	case place.Within < 0:
		err = fmt.Errorf("the agent ends within %v", place.Within)
	default:
		err = pki.CheckName(place.Node)
	}
	if err != nil {
		return Place{}, &DamagedError{path, err}
	}
	return place, nil
}

// reread reads the record of an agent again if it was damaged: a person may have mended it.
func (p *Places) reread(ctx context.Context, path string) error {
	p.mu.Lock()
	_, damaged := p.damaged[path]
	p.mu.Unlock()
	if !damaged {
		return nil
	}
	r, err := store.Get(ctx, p.Store, Prefix+"/"+path)
	if err != nil {
		return fmt.Errorf("%s: %w: reading where it runs: %w", path, runtime.ErrNoNode, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Rev == 0 {
		delete(p.damaged, path)
		return nil
	}
	place, err := decode(r)
	if err != nil {
		p.damaged[path] = err
		return nil // and no node is chosen
	}
	delete(p.damaged, path)
	p.all[path] = place
	if p.fleet != nil {
		p.fleet.Place(path, pathpkg.Dir(path), place.Node)
	}
	return nil
}
