package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// A fleet at rest writes next to nothing into etcd, however many agents it has: leases are renewed without a write.
func TestFleetAtRest(t *testing.T) {
	t.Parallel()
	const (
		agents = 60
		quiet  = 3 * time.Second
		rest   = leaseTTL + 2*time.Second // each lease is renewed at least three times
	)
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	m := newMachines(t, c, 2, agentTOML("crew", `exec sleep 100000`, "max_per_node = 1000", "[agent.pool]",
		fmt.Sprintf("min = %d", agents), fmt.Sprintf("max = %d", agents)))
	m.start()
	first := m.all[0]
	await(t, moved, func() string {
		out, _ := first.answers("status")
		if strings.Contains(out, fmt.Sprintf("\nagents   %d: %[1]d running\n", agents+len(m.agents))) {
			return ""
		}
		return out
	})
	revision := func() store.Rev { // of all that was ever written
		rev, err := m.store().Apply(t.Context(), store.Fence{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	last, since := revision(), time.Now()
	await(t, moved, func() string {
		if now := revision(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Sprintf("the last write is %v ago", time.Since(since))
		}
		return ""
	})
	before, begun := revision(), time.Now()
	await(t, rest+moved, func() string {
		if time.Since(begun) < rest {
			return "it is not over"
		}
		return ""
	})
	most := store.Rev(len(m.all)) // one for each node
	if n := revision() - before; n > most {
		t.Errorf("%d writes in %v, want at most %d", n, time.Since(begun), most)
	} else {
		t.Logf("%d writes in %v, with %d agents on %d nodes", n, time.Since(begun), agents, len(m.all))
	}
	first.says([]string{"status"}, "writes/s, at most 16 at once")
	first.do("down")
	m.checkDown()
}
