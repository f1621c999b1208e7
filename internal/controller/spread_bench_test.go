package controller

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/leases"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// BenchmarkSpread measures the controller of 10,000 agents on 20 nodes, with an etcd of three members: a round of the
// reconciliation, with a look at all nodes and without, and what it takes to start all agents. Agents and the runtimes
// of the nodes are played.
func BenchmarkSpread(b *testing.B) {
	const agents, nodes = 10_000, 20
	cluster := etcdtest.Start(b, etcdtest.Options{})
	l, err := etcd.ParseLocation("etcd://" + strings.Join(cluster.Endpoints(), ",") + "/spread")
	if err != nil {
		b.Fatal(err)
	}
	inner, err := etcd.Open(b.Context(), l, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer inner.Close()
	s := &writes{Store: inner}
	stages := map[string]*stage{}
	var known []registry.Node
	for i := range nodes {
		name := fmt.Sprint("n", i)
		stages[name] = newStage()
		stages[name].quiet = true
		lease, err := s.Acquire(b.Context(), registry.LeaseOf(name), 10*time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		known = append(known, registry.Node{Name: name, Epoch: lease.Fence().Epoch})
	}
	all := func() []registry.Node { return known }
	places, err := placing.Open(b.Context(), placing.Options{
		Store: s, Node: "n0", Epoch: func() uint64 { return known[0].Epoch }, Logger: slog.New(slog.DiscardHandler),
		Nodes: all, Leases: leases.New(s, func() ([]registry.Node, <-chan struct{}) { return known, nil }),
		Runtime: func(node, _ string) runtime.Runtime { return stages[node] },
		Lost:    func(node string, _ uint64) { b.Errorf("node %s is lost", node) },
	})
	if err != nil {
		b.Fatal(err)
	}
	var words []string
	for i := range nodes {
		var all []string
		for j := range agents / nodes {
			all = append(all, fmt.Sprintf("a%d-%d", i, j))
		}
		words = append(words, fmt.Sprintf("g%d(%s)", i, strings.Join(all, " ")))
	}
	tree := treeOf(b, words...)
	for _, child := range tree.All() {
		if child.Agent != nil {
			child.Agent.Placement = spec.Placement{MaxPerNode: agents}
		}
	}
	begun := time.Now()
	c, err := Open(context.Background(), Options{
		Tree: tree, Store: s, Runtimes: []runtime.Runtime{placing.New(stages["n0"], places)}, Places: places,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Started(b.Context()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(begun)
	for name, there := range stages {
		if n := len(there.slots); n != agents/nodes {
			b.Errorf("%d agents on node %s", n, name)
		}
	}
	round := func() {
		f := c.fleet()
		if r := reconcile.Plan(c.observer.Desired(f), c.observer.Observe(f), reconcile.InFlight{}, time.Now()); len(r.Actions) > 0 {
			b.Errorf("%d actions, such as %v", len(r.Actions), r.Actions[0])
		}
	}
	b.Run("round", func(b *testing.B) {
		for b.Loop() {
			round()
		}
	})
	b.Run("round-and-look", func(b *testing.B) {
		for b.Loop() {
			places.Update()
			c.orphans.Scan(b.Context())
			round()
		}
	})
	b.Run("starts", func(b *testing.B) {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(float64(s.made.Load())/took.Seconds(), "transactions/s")
		b.ReportMetric(float64(s.ops.Load())/took.Seconds(), "writes/s")
		b.ReportMetric(etcdMetric(b, cluster, "etcd_mvcc_db_total_size_in_bytes")/1e6, "etcd-file-MB")
		b.ReportMetric(etcdMetric(b, cluster, "process_resident_memory_bytes")/1e6, "etcd-memory-MB")
	})
	c.Stop(false)
	<-c.Ended()
}

// writes counts what is written to a store.
type writes struct {
	store.Store
	made, ops atomic.Int64
}

func (w *writes) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if len(ops) > 0 {
		w.made.Add(1)
		w.ops.Add(int64(len(ops)))
	}
	return w.Store.Apply(ctx, f, conds, ops)
}

// etcdMetric returns a metric of a member of etcd.
func etcdMetric(b *testing.B, c *etcdtest.Cluster, name string) (value float64) {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+c.Endpoints()[0]+"/metrics", nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, name+" %g", &value); err == nil {
			return value
		}
	}
	b.Fatalf("etcd has no metric %s", name)
	return 0
}
