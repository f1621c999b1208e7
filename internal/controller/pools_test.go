package controller

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// queue is what the check of a pool looks at.
type queue struct {
	mu    sync.Mutex
	n     int
	err   error
	takes time.Duration
	asked int
}

func (q *queue) set(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n, q.err = n, err
}

func (q *queue) check(ctx context.Context, c pool.Check) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked++
	if q.takes > 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errors.New("too slow"))
		defer cancel()
		select {
		case <-time.After(q.takes):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return q.n, q.err
}

// poolOf is a tree with an agent and the pool w.
func poolOf(t testing.TB, p spec.Pool, others ...string) *spec.Tree {
	t.Helper()
	decls := []spec.Decl{{Agent: &spec.Agent{Name: "w", Dir: "/", Command: []string{"work"}, Pool: &p, Limit: supervisor.Quarantining(5, time.Hour)}}}
	for _, name := range others {
		decls = append(decls, spec.Decl{Agent: &spec.Agent{Name: name, Dir: "/", Command: []string{name}}})
	}
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, decls)
	if problems != nil {
		t.Fatal(problems)
	}
	tree.Patrol = spec.DefaultPatrol()
	return tree
}

// playPools opens a controller whose pools ask a queue.
func playPools(t testing.TB, s *stage, db store.Store, tree *spec.Tree, q *queue) *play {
	t.Helper()
	c, err := Open(context.Background(), Options{
		Tree: tree, Store: db, Runtimes: []runtime.Runtime{s}, Logger: slog.New(slog.DiscardHandler), check: q.check,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &play{c, t, s, db}
	p.moment()
	return p
}

// moment lets happen what happens at once.
func (p *play) moment() {
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
}

// says lets a queue change, and the pools ask it at once.
func (p *play) says(q *queue, n int, err error) {
	q.set(n, err)
	p.pools.CheckAll()
	p.moment()
}

func (p *play) wants(cast string) {
	p.t.Helper()
	if got := p.stage.cast(); got != cast {
		p.t.Errorf("there live %q, want %q", got, cast)
	}
}

func (p *play) ack(path string, incarnation uint64) {
	p.t.Helper()
	if err := p.drains.AckDrain(token.Caller{Path: path, Incarnation: incarnation}); err != nil {
		p.t.Error(err)
	}
	p.moment()
}

// shows is a node as people see it.
func (p *play) shows(path string) status.Node {
	p.t.Helper()
	nodes, err := p.status.Nodes(context.Background(), path)
	if err != nil {
		p.t.Fatal(err)
	}
	return nodes[0]
}

const crowd = "t/w/w-1 1, t/w/w-2 1, t/w/w-3 1"

func TestPoolScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 0}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Min: 1, Max: 3, Check: []string{"q"}, DrainTimeout: time.Minute}, "other"), q)
		defer p.close()
		p.wants("t/other 1, t/w/w-1 1") // the minimum
		if err := p.Started(context.Background()); err != nil {
			t.Error(err)
		}
		p.says(q, 7, nil)
		p.wants("t/other 1, " + crowd)
		p.says(q, 1, nil)
		p.wants("t/other 1, " + crowd) // and work
		for _, path := range []string{"t/w/w-2", "t/w/w-3"} {
			if d := p.shows(path).Drain; d == nil || d.Finished || d.Reason != "its pool no longer wants it" || d.Left < 59 {
				t.Errorf("%s is not asked to finish as it should: %+v", path, d)
			}
		}
		if got := p.shows("t/w").Pool; got.Size != 1 || got.Instances != 3 || got.Draining != 2 || got.Answer != 1 || !got.Answered {
			t.Errorf("the pool shows %+v", got)
		}
		p.ack("t/w/w-2", 1)
		p.wants("t/other 1, t/w/w-1 1, t/w/w-3 1")
		time.Sleep(58 * time.Second)
		p.wants("t/other 1, t/w/w-1 1, t/w/w-3 1")
		time.Sleep(2 * time.Second)
		p.wants("t/other 1, t/w/w-1 1") // it took too long
		p.says(q, 2, nil)
		p.wants("t/other 1, t/w/w-1 1, t/w/w-2 2") // another life of the same slot
		want := []string{
			"t/w wants 3 instances instead of 1: the check says 7, the bounds are 1..3",
			"t/w wants 1 instance instead of 3: the check says 1, the bounds are 1..3",
			"t/w/w-2 has finished, and is stopped",
			"t/w/w-3 did not finish in time, and is stopped",
			"t/w wants 2 instances instead of 1: the check says 2, the bounds are 1..3",
		}
		if got := p.happened(event.PoolScaled, event.AgentDrained); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		nodes, err := p.status.Nodes(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, n := range nodes {
			listed = append(listed, n.Path)
		}
		if got := strings.Join(listed, " "); got != "t t/w t/w/w-1 t/w/w-2 t/other" {
			t.Errorf("listed are %s", got)
		}
	})
}

func TestPoolWantsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 3}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 3, Check: []string{"q"}}), q)
		defer p.close()
		p.wants(crowd)
		p.says(q, 1, nil)
		p.says(q, 2, nil)
		if p.shows("t/w/w-2").Drain != nil || p.shows("t/w/w-3").Drain == nil {
			t.Error("not the last one is asked to finish")
		}
		if got := p.happened(event.AgentDrainEnded); len(got) != 1 || got[0] != "t/w/w-2 need no longer finish: its pool wants it again" {
			t.Errorf("it goes on: %q", got)
		}
		if err := p.drains.AckDrain(token.Caller{Path: "t/w/w-2", Incarnation: 1}); !errors.Is(err, api.ErrConflict) {
			t.Errorf("who goes on says that it has finished: %v", err)
		}
		p.ack("t/w/w-3", 1)
		p.wants("t/w/w-1 1, t/w/w-2 1")
	})
}

// A check that fails changes nothing, and is told once.
func TestPoolCheckFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 2}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 3, Check: []string{"q"}, CheckTimeout: 20 * time.Second}), q)
		defer p.close()
		p.says(q, 0, errors.New("no queue"))
		p.says(q, 0, errors.New("no queue"))
		time.Sleep(5 * time.Minute)
		p.wants("t/w/w-1 1, t/w/w-2 1")
		if got := p.shows("t/w").Pool; got.Error != "no queue" || got.Size != 2 || !got.Answered {
			t.Errorf("the pool shows %+v", got)
		}
		q.mu.Lock()
		q.takes, q.n, q.err = time.Hour, 3, nil
		asked := q.asked
		q.mu.Unlock()
		if asked < 10 {
			t.Errorf("it was asked only %d times", asked)
		}
		p.pools.CheckAll()
		time.Sleep(time.Second)
		if _, err := p.control.Act(context.Background(), "t/w/w-1", control.Restart); err != nil { // nothing waits for a check that hangs
			t.Error(err)
		}
		p.wants("t/w/w-1 2, t/w/w-2 1")
		time.Sleep(25 * time.Second)
		q.mu.Lock()
		q.takes = 0
		q.mu.Unlock()
		p.says(q, 3, nil)
		p.wants("t/w/w-1 2, t/w/w-2 1, t/w/w-3 1")
		want := "the check of t/w has failed, and it keeps its 2 instances: no queue|the check of t/w has failed, and it keeps its 2 instances: too slow|the check of t/w answers again: 3"
		if got := strings.Join(p.happened(event.PoolCheckFailed, event.PoolCheckRecovered), "|"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// What ends while it is drained is gone, however it ends, and nothing takes its place.
func TestPoolEndsDraining(t *testing.T) {
	for name, exit := range map[string]supervisor.Exit{"with 0": {Kind: supervisor.Normal}, "in a crash": {Kind: supervisor.Failure, Err: errors.New("exit code 1")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &queue{n: 2}
				p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 2, Check: []string{"q"}}), q)
				defer p.close()
				p.says(q, 1, nil)
				p.stage.on("t/w/w-2").end(exit)
				p.moment()
				p.wants("t/w/w-1 1")
				if n := p.stage.starts("t/w/w-2"); n != 1 {
					t.Errorf("it was started %d times", n)
				}
				if got := p.happened(event.AgentDrained); len(got) != 1 || got[0] != "t/w/w-2 has ended, and is stopped" {
					t.Errorf("drained: %q", got)
				}
				p.says(q, 2, nil)
				p.wants("t/w/w-1 1, t/w/w-2 2")
			})
		})
	}
}

// What ends while it is wanted is started again by its supervisor, and its limit
// is its own, also over being dismissed.
func TestPoolRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 2}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 2, Check: []string{"q"}}), q)
		defer p.close()
		for range 3 {
			p.stage.on("t/w/w-2").end(part{}.ending())
			p.moment()
		}
		p.wants("t/w/w-1 1, t/w/w-2 4")
		p.says(q, 1, nil)
		p.ack("t/w/w-2", 4)
		p.says(q, 2, nil)
		p.wants("t/w/w-1 1, t/w/w-2 5")
		p.stage.on("t/w/w-2").end(part{}.ending()) // the fifth start in the hour was its last
		p.moment()
		p.wants("t/w/w-1 1")
		if got := p.state("t/w/w-2"); got != supervisor.Quarantined {
			t.Errorf("it is %v", got)
		}
		p.says(q, 1, nil) // there is nothing to finish
		p.says(q, 2, nil)
		if got := p.state("t/w/w-2"); got != supervisor.Quarantined {
			t.Errorf("after it was not wanted for a while, it is %v", got)
		}
		time.Sleep(2 * time.Hour)
		p.wants("t/w/w-1 1, t/w/w-2 6")
	})
}

// What has ended for good comes again when the check asks for it once more: a
// worker that ends when there is nothing to do is there when there is.
func TestPoolComesAgain(t *testing.T) {
	for _, policy := range []supervisor.Restart{supervisor.Transient, supervisor.Temporary} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &queue{n: 2}
				tree := poolOf(t, spec.Pool{Max: 3, Check: []string{"q"}})
				tree.Pools()["t/w"].Template.Restart = policy
				p := playPools(t, newStage(), memory.New(), tree, q)
				defer p.close()
				p.says(q, 2, errors.New("no queue"))
				p.stage.on("t/w/w-1").end(supervisor.Exit{Kind: supervisor.Normal})
				p.moment()
				p.says(q, 2, errors.New("no queue"))
				p.wants("t/w/w-2 1") // without a check since
				p.says(q, 2, nil)
				p.wants("t/w/w-1 2, t/w/w-2 1")
				if _, err := p.control.Act(context.Background(), "t/w/w-2", control.Stop); err != nil {
					t.Error(err)
				}
				p.says(q, 3, nil)
				p.wants("t/w/w-1 2, t/w/w-3 1") // a stop by hand is something else
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		tree := poolOf(t, spec.Pool{Min: 2, Max: 2})
		tree.Pools()["t/w"].Template.Restart = supervisor.Transient
		p := playPools(t, newStage(), memory.New(), tree, &queue{})
		defer p.close()
		p.stage.on("t/w/w-1").end(supervisor.Exit{Kind: supervisor.Normal})
		time.Sleep(10 * time.Minute)
		p.wants("t/w/w-2 1") // there is no check
	})
}

// What people do holds.
func TestPoolAndPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := &queue{n: 3}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 3, Check: []string{"q"}}), q)
		defer p.close()
		act := func(path string, a control.Action) {
			t.Helper()
			if _, err := p.control.Act(ctx, path, a); err != nil {
				t.Errorf("%s %s: %v", a, path, err)
			}
			p.moment()
		}
		act("t/w/w-2", control.Stop)
		time.Sleep(10 * time.Minute)
		p.wants("t/w/w-1 1, t/w/w-3 1")
		p.says(q, 1, nil) // nothing of the second one is left to finish
		p.wants("t/w/w-1 1, t/w/w-3 1")
		for _, a := range []control.Action{control.Start, control.Restart, control.Resume} {
			if _, err := p.control.Act(ctx, "t/w/w-3", a); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "no longer wanted by its pool") {
				t.Errorf("%s of an instance that is not wanted: %v", a, err)
			}
		}
		p.says(q, 3, nil)
		p.wants("t/w/w-1 1, t/w/w-3 1") // the stop still holds
		act("t/w/w-2", control.Start)
		p.wants("t/w/w-1 1, t/w/w-2 2, t/w/w-3 1")

		done := make(chan error)
		go func() { done <- p.drains.Drain(ctx, drain.Request{Path: "t/w/w-3", Timeout: 3600}) }()
		p.moment()
		p.says(q, 1, nil) // the pool does not mix in
		if d := p.shows("t/w/w-3").Drain; d == nil || d.Reason != "" || d.Left < 3000 {
			t.Errorf("a drain by hand has become %+v", d)
		}
		p.ack("t/w/w-3", 1)
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.ack("t/w/w-2", 2)
		p.wants("t/w/w-1 1")

		asked := func() int { q.mu.Lock(); defer q.mu.Unlock(); return q.asked }
		act("t/w", control.Stop)
		before := asked()
		time.Sleep(10 * time.Minute)
		p.wants("")
		if asked() != before {
			t.Error("the check runs while the pool is stopped")
		}
		q.set(2, nil)
		act("t/w", control.Start)
		p.pools.CheckAll()
		p.moment()
		p.wants("t/w/w-1 2, t/w/w-2 3")
		act("t/w", control.Restart)
		p.wants("t/w/w-1 3, t/w/w-2 4")
	})
}

// A check that answers while the pool stops finds instances that have stopped already. They are not
// asked for again: their pool starts them, with the number that follows.
func TestPoolStopsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q, s := &queue{n: 3}, newStage()
		s.plays("t/w/w-1", part{stops: time.Second})
		p := playPools(t, s, memory.New(), poolOf(t, spec.Pool{Min: 1, Max: 3, Check: []string{"q"}}), q)
		defer p.close()
		p.wants(crowd)
		stopped := make(chan error)
		go func() { _, err := p.control.Act(ctx, "t/w", control.Stop); stopped <- err }()
		p.moment()
		p.wants("t/w/w-1 1")
		p.says(q, 3, nil)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if _, err := p.control.Act(ctx, "t/w", control.Start); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.wants("t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
		if removed := p.happened(event.AgentRemoved); removed != nil {
			t.Errorf("removed while the pool stopped: %q", removed)
		}
	})
}

// The file changes, and what works goes on.
func TestPoolReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 3}
		check := []string{"q"}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 2, Check: check}, "other"), q)
		defer p.close()
		becomes := func(tree *spec.Tree, cast string) {
			t.Helper()
			if _, err := p.apply(context.Background(), tree, fleet.Config{}); err != nil {
				t.Error(err)
			}
			p.moment()
			p.wants(cast)
		}
		p.wants("t/other 1, t/w/w-1 1, t/w/w-2 1")
		q.set(0, errors.New("a check is not needed for that"))
		becomes(poolOf(t, spec.Pool{Max: 4, Check: check}, "other"), "t/other 1, "+crowd)
		becomes(poolOf(t, spec.Pool{Max: 1, Check: check}, "other"), "t/other 1, "+crowd)
		if p.shows("t/w/w-2").Drain == nil || p.shows("t/w/w-3").Drain == nil {
			t.Error("an instance that is no longer wanted is not asked to finish")
		}
		becomes(poolOf(t, spec.Pool{Max: 2, Check: check}, "other"), "t/other 1, "+crowd)
		p.ack("t/w/w-3", 1)
		becomes(poolOf(t, spec.Pool{Max: 2, Check: check, Names: []string{"ada", "w-2"}}, "other"), "t/other 1, t/w/ada 1, t/w/w-1 1, t/w/w-2 1")
		p.ack("t/w/w-1", 1)
		p.wants("t/other 1, t/w/ada 1, t/w/w-2 1")
		becomes(poolOf(t, spec.Pool{Max: 0, Check: check, Names: []string{"ada", "w-2"}}, "other"), "t/other 1, t/w/ada 1, t/w/w-2 1")
		p.ack("t/w/ada", 1)
		p.wants("t/other 1, t/w/w-2 1")
	})
}

// gone reports whether a node is in the fleet no more.
func (p *play) isGone(path string) bool {
	p.moment()
	return !p.fleet().Has(path)
}

// A pool that is no longer in the file is drained: its members finish, or
// have the time to, and it is gone with the last one.
func TestPoolRetires(t *testing.T) {
	check := []string{"q"}
	three := spec.Pool{Max: 3, Check: check, DrainTimeout: time.Minute}
	begin := func(t *testing.T, others ...string) *play {
		p := playPools(t, newStage(), memory.New(), poolOf(t, three, others...), &queue{n: 3})
		p.moment()
		return p
	}
	becomes := func(p *play, tree *spec.Tree, cast string) spec.Changes {
		p.t.Helper()
		changes, err := p.apply(context.Background(), tree, fleet.Config{})
		if err != nil {
			p.t.Error(err)
		}
		p.moment()
		p.wants(cast)
		return changes
	}
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("removed", func(t *testing.T) {
		p := begin(t, "other")
		defer p.close()
		if got := becomes(p, treeOf(t, "other"), "t/other 1, "+crowd).Removed; len(got) != 1 || got[0] != "t/w" {
			t.Errorf("removed are %q", got)
		}
		for _, path := range []string{"t/w/w-1", "t/w/w-2", "t/w/w-3"} {
			if d := p.shows(path).Drain; d == nil || d.Reason != "its pool is no longer in the file" || d.Left < 59 {
				t.Errorf("%s is not asked to finish: %+v", path, d)
			}
		}
		if got := p.shows("t/w").Pool; !got.Retired || got.Size != 0 || got.Draining != 3 {
			t.Errorf("the pool shows %+v", got)
		}
		if err := p.Started(context.Background()); err != nil {
			t.Error(err)
		}
		p.ack("t/w/w-1", 1)
		p.stage.on("t/w/w-2").end(part{}.ending()) // in the middle of it
		p.moment()
		p.wants("t/other 1, t/w/w-3 1")
		becomes(p, treeOf(t, "other", "more"), "t/more 1, t/other 1, t/w/w-3 1") // somebody changes something else
		time.Sleep(time.Minute)
		p.wants("t/more 1, t/other 1")
		if !p.isGone("t/w") || p.pools.Has("t/w") {
			t.Error("there is still a pool")
		}
		if left, _, _ := p.store.Snapshot(context.Background(), "retired"); len(left) > 0 {
			t.Errorf("kept are %d records", len(left))
		}
		if left, _, _ := p.store.Snapshot(context.Background(), "drains"); len(left) > 0 || p.drains.Len() > 0 {
			t.Errorf("drains are kept: %d records, %d known", len(left), p.drains.Len())
		}
		want := "t/w is no longer in the file: what is left of it, 3 instances, may finish|t/w/w-1 has finished, and is stopped|" +
			"t/w/w-2 has ended, and is stopped|t/w/w-3 did not finish in time, and is stopped|t/w is no longer in the file, and all of it is gone"
		if got := strings.Join(p.happened(event.PoolRetired, event.PoolRemoved, event.AgentDrained, event.PoolScaled), "|"); !strings.HasSuffix(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		becomes(p, poolOf(t, three, "other"), "t/other 1, t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
	})
	run("comes back", func(t *testing.T) {
		p := begin(t)
		defer p.close()
		becomes(p, treeOf(t, "other"), "t/other 1, "+crowd)
		p.ack("t/w/w-1", 1)
		becomes(p, poolOf(t, three), "t/w/w-1 2, t/w/w-2 1, t/w/w-3 1")
		if p.shows("t/w/w-2").Drain != nil || p.shows("t/w").Pool.Retired {
			t.Error("it is still to finish")
		}
		if got := p.happened(event.PoolReturned); len(got) != 1 {
			t.Errorf("returned: %q", got)
		}
	})
	run("becomes an agent", func(t *testing.T) {
		p := begin(t, "other")
		defer p.close()
		becomes(p, treeOf(t, "other", "w"), "t/other 1, "+crowd)
		p.ack("t/w/w-1", 1)
		p.ack("t/w/w-3", 1)
		p.wants("t/other 1, t/w/w-2 1") // the agent must not run beside the last one
		p.ack("t/w/w-2", 1)
		p.wants("t/other 1, t/w 1")
		becomes(p, poolOf(t, three), "t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
		becomes(p, treeOf(t, "w"), "t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
		becomes(p, treeOf(t, "other"), "t/other 2, t/w/w-1 2, t/w/w-2 2, t/w/w-3 2") // and the agent is not wanted, either
		time.Sleep(2 * time.Minute)
		p.wants("t/other 2")
	})
	run("moves", func(t *testing.T) {
		p := begin(t)
		defer p.close()
		becomes(p, inner(t, "in", three), "t/in/beside 1, "+crowd)
		p.ack("t/w/w-1", 1)
		p.ack("t/w/w-2", 1)
		p.wants("t/in/beside 1, t/w/w-3 1")
		if d, ok := p.loop.Waits("t/in/w"); !ok || d.For != "the end of t/w" {
			t.Errorf("it waits for %+v", d)
		}
		p.ack("t/w/w-3", 1)
		p.wants("t/in/beside 1, t/in/w/w-1 1, t/in/w/w-2 1, t/in/w/w-3 1")
		p.stage.on("t/in/w/w-1").end(part{}.ending())
		p.moment()
		p.wants("t/in/beside 1, t/in/w/w-1 2, t/in/w/w-2 1, t/in/w/w-3 1")
		if _, err := p.control.Act(context.Background(), "t/in", control.Restart); err != nil { // and starts as ever
			t.Error(err)
		}
		p.moment()
		p.wants("t/in/beside 2, t/in/w/w-1 3, t/in/w/w-2 2, t/in/w/w-3 2")
		becomes(p, treeOf(t, "other"), "t/in/w/w-1 3, t/in/w/w-2 2, t/in/w/w-3 2, t/other 1") // with what it is in
		becomes(p, treeOf(t, "in"), "t/in/w/w-1 3, t/in/w/w-2 2, t/in/w/w-3 2")
		time.Sleep(2 * time.Minute)
		p.wants("t/in 1")
	})
	run("nothing of it lives", func(t *testing.T) {
		p := begin(t, "other")
		defer p.close()
		if _, err := p.control.Act(context.Background(), "t/w", control.Stop); err != nil {
			t.Fatal(err)
		}
		becomes(p, treeOf(t, "other"), "t/other 1")
		if !p.isGone("t/w") {
			t.Error("there is still a pool")
		}
	})
	run("is suspended meanwhile", func(t *testing.T) {
		p := begin(t, "other")
		defer p.close()
		becomes(p, treeOf(t, "other"), "t/other 1, "+crowd)
		if _, err := p.control.Act(context.Background(), "t", control.Suspend); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.wants("")
		if _, err := p.control.Act(context.Background(), "t", control.Resume); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.wants("t/other 2")
		if !p.isGone("t/w") || p.drains.Len() > 0 {
			t.Errorf("there is still a pool, or something of it: %d drains", p.drains.Len())
		}
	})
	run("with what waits for its restart", func(t *testing.T) {
		p := begin(t, "other")
		defer p.close()
		for range 5 {
			p.stage.on("t/w/w-2").end(part{}.ending())
			p.moment()
		}
		if got := p.state("t/w/w-2"); got != supervisor.Quarantined {
			t.Fatalf("it is %v", got)
		}
		becomes(p, treeOf(t, "other"), "t/other 1, t/w/w-1 1, t/w/w-3 1")
		time.Sleep(2 * time.Hour)
		p.wants("t/other 1") // and is not started for having been held
	})
	run("is stopped meanwhile", func(t *testing.T) {
		p := begin(t, "other")
		defer p.close()
		becomes(p, treeOf(t, "other"), "t/other 1, "+crowd)
		if _, err := p.control.Act(context.Background(), "t/w", control.Stop); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.wants("t/other 1")
		if !p.isGone("t/w") || p.drains.Len() > 0 {
			t.Errorf("there is still a pool, or something of it: %d drains", p.drains.Len())
		}
	})
}

// The next controller goes on with what was retired, as long as it has.
func TestPoolRetiredIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s, db := &queue{n: 3}, newStage(), memory.New()
		three := spec.Pool{Min: 1, Max: 3, Check: []string{"q"}, DrainTimeout: time.Minute, OnBoot: spec.Hook{Command: []string{"boot"}}}
		p := playPools(t, s, db, poolOf(t, three), q)
		p.moment()
		p.wants(crowd)
		if _, err := p.apply(context.Background(), treeOf(t, "other", "w"), fleet.Config{}); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.ack("t/w/w-1", 1)
		time.Sleep(20 * time.Second)
		p.dies()
		s.on("t/w/w-2").end(part{}.ending()) // without a daemon
		p.wants("t/other 1, t/w/w-3 1")

		p = playPools(t, s, db, treeOf(t, "other", "w"), q)
		p.wants("t/other 1, t/w/w-3 1")
		if d := p.shows("t/w/w-3").Drain; d == nil || d.Left > 40 || d.Left < 35 || d.Reason != "its pool is no longer in the file" {
			t.Errorf("the drain is %+v", d)
		}
		if err := p.Started(context.Background()); err != nil {
			t.Error(err)
		}
		p.dies()

		p = playPools(t, s, db, treeOf(t, "other", "w"), q) // once more
		p.wants("t/other 1, t/w/w-3 1")
		time.Sleep(41 * time.Second)
		p.wants("t/other 1, t/w 1")
		if left, _, _ := db.Snapshot(context.Background(), "retired"); len(left) > 0 {
			t.Errorf("%d pools are kept", len(left))
		}
		p.dies()

		p = playPools(t, s, db, poolOf(t, three, "other"), q)
		p.moment()
		p.wants("t/other 1, t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
		if _, err := p.apply(context.Background(), treeOf(t, "other"), fleet.Config{}); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.dies()
		p = playPools(t, s, db, poolOf(t, three, "other"), q) // and it is in the file again
		p.wants("t/other 1, t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
		if p.shows("t/w/w-2").Drain != nil || p.shows("t/w").Pool.Retired {
			t.Error("it is still to finish")
		}
		if _, err := p.apply(context.Background(), treeOf(t, "other"), fleet.Config{}); err != nil {
			t.Fatal(err)
		}
		p.moment()
		p.close() // in order
		p = playPools(t, s, db, treeOf(t, "other"), q)
		p.wants("t/other 2")
		if left, _, _ := db.Snapshot(context.Background(), "retired"); len(left) > 0 || !p.isGone("t/w") {
			t.Errorf("%d pools are kept", len(left))
		}
		p.close()
	})
}

// A check with changing answers costs no instance its work, and nothing piles up.
func TestPoolFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{n: 3}
		p := playPools(t, newStage(), memory.New(), poolOf(t, spec.Pool{Max: 3, Check: []string{"q"}, DrainTimeout: time.Hour}), q)
		defer p.close()
		for range 50 {
			p.says(q, 1, nil)
			p.wants(crowd)
			p.says(q, 3, nil)
			p.wants(crowd)
		}
		for _, path := range []string{"t/w/w-1", "t/w/w-2", "t/w/w-3"} {
			if n := p.stage.starts(path); n != 1 || p.shows(path).Drain != nil {
				t.Errorf("%s was started %d times, %+v", path, n, p.shows(path).Drain)
			}
		}
		if left, _, _ := p.store.Snapshot(context.Background(), "drains"); len(left) > 0 || p.drains.Len() > 0 {
			t.Errorf("%d drains are kept, %d known", len(left), p.drains.Len())
		}
		p.says(q, 1, nil)
		time.Sleep(59 * time.Minute)
		p.says(q, 3, nil) // and has all of its time the next time
		p.says(q, 1, nil)
		time.Sleep(59 * time.Minute)
		p.wants(crowd)
		time.Sleep(2 * time.Minute)
		p.wants("t/w/w-1 1")
	})
}

// A crowd comes and goes as a few do.
func TestPoolOfMany(t *testing.T) {
	const many = 500
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.quiet = true
		q := &queue{n: many}
		p := playPools(t, s, memory.New(), poolOf(t, spec.Pool{Max: spec.UnlimitedPool, Check: []string{"q"}, DrainTimeout: time.Minute}, "other"), q)
		defer p.close()
		live := func(want int) {
			t.Helper()
			if err := p.loop.AwaitIdle(context.Background()); err != nil {
				t.Error(err)
			}
			if got := p.shows("t/w").Pool; got.Instances != want {
				t.Errorf("%d live, want %d", got.Instances, want)
			}
		}
		if err := p.Started(context.Background()); err != nil {
			t.Fatal(err)
		}
		live(many)
		p.says(q, 1, nil)
		if got := p.shows("t/w").Pool; got.Draining != many-1 {
			t.Errorf("%d are to finish", got.Draining)
		}
		time.Sleep(2 * time.Minute)
		live(1)
		p.says(q, many, nil)
		time.Sleep(time.Minute)
		live(many)
		if _, err := p.apply(context.Background(), treeOf(t, "other"), fleet.Config{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		p.wants("t/other 1")
		if !p.isGone("t/w") {
			t.Error("there is still a pool")
		}
	})
}

// inner is a tree with a supervisor, with the pool w in it.
func inner(t testing.TB, name string, p spec.Pool) *spec.Tree {
	t.Helper()
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, []spec.Decl{
		{Node: &spec.Node{Name: name}, Children: []string{"beside", "w"}},
		{Agent: &spec.Agent{Name: "beside", Dir: "/", Command: []string{"beside"}}},
		{Agent: &spec.Agent{Name: "w", Dir: "/", Command: []string{"work"}, Pool: &p}},
	})
	if problems != nil {
		t.Fatal(problems)
	}
	tree.Patrol = spec.DefaultPatrol()
	return tree
}

// dies ends a controller as if it was killed: the agents go on, nothing is said of them.
func (p *play) dies() {
	p.Stop(true)
	<-p.Ended()
}

// The next controller takes over what there is, and asks who was asked for as
// long as they have: none is started twice, none is stopped for it.
func TestPoolTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s, db := &queue{n: 3}, newStage(), memory.New()
		tree := func(max int) *spec.Tree {
			return poolOf(t, spec.Pool{Max: max, Check: []string{"q"}, DrainTimeout: time.Minute, CheckTimeout: time.Hour})
		}
		p := playPools(t, s, db, tree(3), q)
		p.wants(crowd)
		p.says(q, 2, nil)
		if p.shows("t/w/w-3").Drain == nil {
			t.Fatal("no instance is asked to finish")
		}
		time.Sleep(20 * time.Second)
		p.dies()
		p.wants(crowd)

		q.takes = 30 * time.Minute // until it has answered, the size is what it was
		p = playPools(t, s, db, tree(3), q)
		p.wants(crowd)
		if got := p.shows("t/w").Pool; got.Size != 2 || got.Draining != 1 || !got.Checking {
			t.Errorf("the pool shows %+v", got)
		}
		if d := p.shows("t/w/w-3").Drain; d == nil || d.Left > 40 || d.Left < 35 {
			t.Errorf("the drain is %+v", d)
		}
		time.Sleep(41 * time.Second)
		p.wants("t/w/w-1 1, t/w/w-2 1")
		p.dies()

		q.takes = 0
		q.set(2, nil)
		p = playPools(t, s, db, tree(1), q) // the file has changed meanwhile
		p.wants("t/w/w-1 1, t/w/w-2 1")
		if p.shows("t/w/w-2").Drain == nil {
			t.Error("who is too many is not asked to finish")
		}
		p.ack("t/w/w-2", 1)
		p.wants("t/w/w-1 1")
		p.dies()

		p = playPools(t, s, db, tree(3), q) // the finished one comes again
		p.wants("t/w/w-1 1, t/w/w-2 2")
		p.dies()

		p = playPools(t, s, memory.New(), tree(3), q) // the state is lost
		p.wants("t/w/w-1 1, t/w/w-2 2")
		for path, want := range map[string]int{"t/w/w-1": 1, "t/w/w-2": 2, "t/w/w-3": 1} {
			if got := s.starts(path); got != want {
				t.Errorf("%s was started %d times, want %d", path, got, want)
			}
		}
		p.close()
	})
}

// What was wanted before everything was stopped in order is not wanted for that.
func TestPoolBeginsAfresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s, db := &queue{n: 3}, newStage(), memory.New()
		tree := func() *spec.Tree {
			return poolOf(t, spec.Pool{Min: 1, Max: 3, Check: []string{"q"}, CheckTimeout: time.Hour})
		}
		p := playPools(t, s, db, tree(), q)
		p.wants(crowd)
		p.close()
		q.takes = time.Minute
		p = playPools(t, s, db, tree(), q)
		p.wants("t/w/w-1 2")
		started := make(chan error, 1)
		go func() { started <- p.Started(context.Background()) }()
		p.moment()
		select {
		case <-started:
			t.Error("it is said to have started before its first check is through")
		default:
		}
		time.Sleep(2 * time.Minute)
		p.wants("t/w/w-1 2, t/w/w-2 2, t/w/w-3 2")
		if err := <-started; err != nil {
			t.Error(err)
		}
		p.close()
	})
}

// A start that takes its time holds up neither its own pool nor others, nor a change of the file.
func TestPoolSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, s := &queue{n: 1}, newStage()
		s.plays("t/w/w-2", part{takes: time.Hour})
		p := playPools(t, s, memory.New(), poolOf(t, spec.Pool{Max: 4, Check: []string{"q"}}, "other"), q)
		defer p.close()
		p.says(q, 2, nil)
		p.says(q, 4, nil)
		if got := p.state("t/w/w-3"); got != supervisor.Running {
			t.Errorf("beside one that takes its time, the next one is %v", got)
		}
		if _, err := p.apply(context.Background(), poolOf(t, spec.Pool{Max: 4, Check: []string{"q"}}, "other", "more"), fleet.Config{}); err != nil {
			t.Error(err)
		}
		p.moment()
		if got := p.state("t/more"); got != supervisor.Running {
			t.Errorf("what is new in the file is %v", got)
		}
	})
}
