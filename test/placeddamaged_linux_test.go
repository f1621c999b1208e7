package test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// The record of where an agent runs is damaged: the next controller does not start it a second time, says how to mend
// that, and runs all others.
func testPlacedDamaged(t *testing.T, c *etcdtest.Cluster) {
	m, away := placed(t, c, 2, `node = "n2"`)
	m.startWith("zone=eu")
	first, second := m.all[0], m.all[1]
	l := m.awaitLife(away, second)
	write := func(op store.Op) {
		t.Helper()
		op.Key = placing.Prefix + "/t/away"
		if _, err := m.store().Apply(t.Context(), store.Fence{}, nil, []store.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	write(store.Op{Kind: store.Put, Value: []byte(`{"path":"t/aw`)})
	first.daemon().kill()
	first.answers("up", "-d")
	m.awaitRunning(first)
	const remedy = "etcdctl del PREFIX/k/cluster/places/t/away"
	await(t, moved, func() string {
		if n := first.node("t/away"); !strings.Contains(n.Reason, remedy) {
			return fmt.Sprintf("%+v", n)
		}
		return ""
	})
	for _, n := range m.all {
		n.says([]string{"explain", "away"}, "the record of where t/away runs is damaged", remedy)
		if out, _ := n.answers("doctor"); !strings.Contains(out, remedy) {
			t.Errorf("node %s: %s", n.name, out)
		}
	}
	if e := first.events(event.AgentWaiting, "t/away"); len(e) == 0 || !strings.Contains(e[len(e)-1].Message, remedy) {
		t.Errorf("%+v", e)
	}
	if now := m.lastOf(away); now != l || !runs(l.pid) {
		t.Errorf("it was started again, or has ended: %+v, was %+v", now, l)
	}

	if err := unix.Kill(l.pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	write(store.Op{Kind: store.Delete})
	first.do("restart", "away")
	m.awaitLife(away, second)
	first.do("down")
	m.checkDown()
}
