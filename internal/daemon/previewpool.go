package daemon

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// poll is what is known of a pool where no daemon runs.
type poll struct {
	path   string
	agent  *spec.Agent
	held   bool // the file suspends it: its check is not asked
	demand pool.Demand
	at     time.Time
	lives  []string // instances of it that live, or may
}

// askPools runs the checks of the pools of a tree beside each other, as a
// daemon would. The polls are in the order of the file.
func askPools(ctx context.Context, tree *spec.Tree, seen []runtime.Observation, socket string) []*poll {
	f := newFleet(tree.Minimal(), ConfigInfo{})
	var polls []*poll
	byPath := make(map[string]*poll)
	for _, path := range f.order {
		if n := f.nodes[path]; n != nil && n.Template != nil {
			p := &poll{path: path, agent: n.Template, held: f.suspended(path)}
			polls, byPath[path] = append(polls, p), p
		}
	}
	for _, o := range seen {
		above, name, _ := cutLast(o.Path)
		if p := byPath[above]; p != nil {
			p.lives = append(p.lives, name)
		}
	}
	runner := pool.NewRunner(fmt.Sprintf("preview by %d of %s", os.Getpid(), socket))
	var wg sync.WaitGroup
	for _, p := range polls {
		if !p.held {
			wg.Go(func() { p.ask(ctx, runner, socket) })
		}
	}
	wg.Wait()
	return polls
}

func (p *poll) ask(ctx context.Context, r *pool.Runner, socket string) {
	n, err := 1, error(nil)
	if p.agent.Pool.Check != nil { // beside that of a daemon which may begin meanwhile
		mark := fmt.Sprintf("preview by %d of %s %s", os.Getpid(), socket, p.path)
		var as identity
		if as, err = identityOf(p.agent, socket); err == nil {
			n, err = r.Run(ctx, checkOf(p.agent, as, poolEnviron(p.agent, as, p.path, p.size()), mark))
		}
	}
	p.demand, p.at = p.demand.Answered(n, err), time.Now()
}

// size is how many instances there should be. While the check has not answered,
// what runs is taken for what the last daemon knew.
func (p *poll) size() int {
	if !p.demand.Known {
		return p.agent.Pool.Clamp(len(p.lives))
	}
	return p.demand.Size(p.agent.Pool)
}

// laidOut are the instances that pools are to have, by path of the pool. Where
// nobody asks what is wanted, that is with those who live.
func laidOut(polls []*poll) map[string][]string {
	laid := make(map[string][]string, len(polls))
	for _, p := range polls {
		laid[p.path] = p.agent.Instances(p.size())
		if p.held {
			laid[p.path] = append(laid[p.path], p.lives...)
		}
	}
	return laid
}

// surplus is what becomes of those who live and are not wanted.
func (p *poll) surplus() (all []api.RoundAction) {
	if p.held {
		return nil
	}
	var members []pool.Member
	for _, name := range p.agent.Sorted(p.lives) {
		members = append(members, pool.Member{Name: name, Lives: true})
	}
	steps, _ := pool.Plan(time.Now(), p.agent.Instances(p.size()), members)
	for _, s := range steps {
		if s.Verb == pool.Ask {
			all = append(all, api.RoundAction{Action: "drain", Path: p.path + "/" + s.Name, Reason: s.Why})
		}
	}
	return all
}

func (p *poll) shown() api.PoolAt {
	s := api.Pool{
		Size: p.size(), Instances: len(p.lives), Min: p.agent.Pool.Min, Max: p.agent.Pool.Ceiling(), Answer: p.demand.Asked, Answered: p.demand.Known,
	}
	if p.agent.Pool.Check != nil && !p.at.IsZero() {
		s.CheckedAt = &p.at
	}
	if p.demand.Problem != nil {
		s.Error = p.demand.Problem.Error()
	}
	return api.PoolAt{Path: p.path, Pool: s}
}
