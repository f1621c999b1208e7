package nodes_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// fleet has the nodes a, the controller, b, and c, which has not run yet; and two agents, on a and on b.
func fleet(t *testing.T) (s *memory.Store, leases map[string]store.Lease) {
	t.Helper()
	s, leases = memory.New(), map[string]store.Lease{}
	t.Cleanup(func() { s.Close() })
	put := func(key string, value any) {
		t.Helper()
		text, err := json.Marshal(value)
		if err == nil {
			_, err = s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: key, Value: text}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := registry.Join(t.Context(), s, name, [32]byte{name[0]}); err != nil {
			t.Fatal(err)
		}
		if name == "c" {
			continue
		}
		l, err := s.Acquire(t.Context(), registry.LeaseOf(name), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		leases[name] = l
		info := registry.Info{Address: name + ":7420", Labels: map[string]string{"zone": name}, Capacity: 7}
		if err := registry.Announce(t.Context(), s, name, l.Fence(), info); err != nil {
			t.Fatal(err)
		}
		put(placing.Prefix+"/app/on-"+name, placing.Place{
			Path: "app/on-" + name, Node: name, Epoch: l.Fence().Epoch, Kind: "proc",
		})
	}
	put("cluster/controller", map[string]any{"node": "a", "epoch": 1})
	return s, leases
}

func states(t *testing.T, s store.Store) string {
	t.Helper()
	all, err := nodes.List(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, n := range all {
		text := n.Name + " " + string(n.State)
		if n.Controller {
			text += " controller"
		}
		texts = append(texts, text+" "+strings.Join(n.Paths, ","))
	}
	return strings.Join(texts, "; ")
}

func TestList(t *testing.T) {
	s, leases := fleet(t)
	if got, want := states(t, s), "a ready controller app/on-a; b ready app/on-b; c joined "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := leases["a"].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := states(t, s), "a lost app/on-a; b ready app/on-b; c joined "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	n, _, err := nodes.Find(t.Context(), s, "b")
	if err != nil || n.Address != "b:7420" || n.Labels["zone"] != "b" || n.Capacity != 7 || n.Joined.IsZero() {
		t.Errorf("%+v, %v", n, err)
	}
	if _, _, err := nodes.Find(t.Context(), s, "d"); !errors.Is(err, registry.ErrUnknown) {
		t.Error(err)
	}
}

// A node whose files differ from those of the controller is known, if both have said which they have.
func TestOtherFiles(t *testing.T) {
	s, leases := fleet(t)
	for files, other := range map[string]bool{"1": false, "2": true, "": false} {
		for name, has := range map[string]string{"a": "1", "b": files} {
			info := registry.Info{
				Address: name + ":7420", Labels: map[string]string{"zone": name}, Capacity: 7, Files: has,
			}
			if err := registry.Announce(t.Context(), s, name, leases[name].Fence(), info); err != nil {
				t.Fatal(err)
			}
		}
		all, err := nodes.List(t.Context(), s)
		if err != nil || all[0].OtherFiles || all[1].OtherFiles != other || all[2].OtherFiles {
			t.Errorf("b has the files %q: %+v, %v", files, all, err)
		}
	}
}

// A node is drained while another one is ready to take over.
func TestDrain(t *testing.T) {
	s, leases := fleet(t)
	for _, step := range []struct {
		name  string
		drain bool
		state nodes.State
		err   error
	}{
		{"a", true, nodes.Draining, nil}, {"a", true, nodes.Draining, nil},
		{"b", true, nodes.Ready, nodes.ErrRefused}, // nothing else is ready
		{"a", false, nodes.Ready, nil}, {"b", true, nodes.Draining, nil}, {"b", false, nodes.Ready, nil},
		{"c", true, nodes.Joined, nil}, {"c", false, nodes.Joined, nil},
		{"d", true, "", registry.ErrUnknown},
	} {
		state, err := nodes.Drain(t.Context(), s, step.name, step.drain)
		if state != step.state || !errors.Is(err, step.err) {
			t.Errorf("%s, %v: %q, %v; want %q, %v", step.name, step.drain, state, err, step.state, step.err)
		}
	}
	if err := leases["b"].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Drain(t.Context(), s, "a", true); !errors.Is(err, nodes.ErrRefused) {
		t.Error(err)
	}
}

func TestRemove(t *testing.T) {
	s, leases := fleet(t)
	if err := nodes.Remove(t.Context(), s, "b"); !errors.Is(err, nodes.ErrRefused) {
		t.Error(err)
	}
	if err := leases["b"].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c"} {
		if err := nodes.Remove(t.Context(), s, name); err != nil {
			t.Error(err)
		}
	}
	if err := nodes.Remove(t.Context(), s, "b"); !errors.Is(err, registry.ErrUnknown) {
		t.Error(err)
	}
	all, err := nodes.List(t.Context(), s)
	if err != nil || !slices.ContainsFunc(all, func(n nodes.Info) bool { return n.Name == "a" }) || len(all) != 1 {
		t.Error(all, err)
	}
}
