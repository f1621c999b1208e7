package placing_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/placement"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
)

// Files are read on the node where the last incarnation was started, and only those of that one.
func TestReadFile(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, a, b, x *node) {
		read := func(path string, incarnation uint64, want error) error {
			t.Helper()
			text, err := c.ReadFile(t.Context(), path, incarnation, "calls.json")
			if !errors.Is(err, want) || err == nil && string(text) != "calls.json" {
				t.Errorf("incarnation %d of %s: %q, %v, want %v", incarnation, path, text, err, want)
			}
			return err
		}
		left := func(n *node, path string, incarnation uint64) {
			n.set(func(m *machine) { m.files = map[string]uint64{path: incarnation} })
		}
		left(a, "here", 1)
		read("here", 0, fs.ErrNotExist) // of a project that was none of a fleet
		c.start(t, "here", 1)
		read("here", 0, nil)
		left(a, "x", 1)
		left(x, "x", 1)
		c.start(t, "x", 1)
		read("x", 0, fs.ErrNotExist) // they are on other nodes than b
		left(b, "x", 1)
		read("x", 0, nil)
		read("x", 1, nil)
		read("x", 2, fs.ErrNotExist)

		// It moves to c, and its start fails there: what c has is of an earlier one.
		b.end("x", nil)
		c.wants["x"] = placement.Want{Node: "c"}
		if err := c.Place(t.Context(), launch("x", 2)); err != nil {
			t.Fatal(err)
		}
		read("x", 0, fs.ErrNotExist)
		left(x, "x", 2)
		read("x", 0, nil)
	})
}

// A node that does not answer may do so later, and one that is lost does not.
func TestReadFileLost(t *testing.T) {
	fleet(t, func(t *testing.T, _ store.Store, c *controller, _, b, _ *node) {
		s := c.start(t, "x", 1)
		b.set(func(m *machine) { m.files, m.unreachable, m.dead = map[string]uint64{"x": 1}, true, true })
		if _, err := c.ReadFile(t.Context(), "x", 0, "f"); !errors.Is(err, runtime.ErrUnknown) {
			t.Errorf("before its lease has ended: %v", err)
		}
		<-s.Done()
		if _, err := c.ReadFile(t.Context(), "x", 0, "f"); !errors.Is(err, runtime.ErrNodeLost) ||
			!strings.Contains(err.Error(), "node b") {
			t.Errorf("after its lease has ended: %v", err)
		}
	})
}
