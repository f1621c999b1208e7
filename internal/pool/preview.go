package pool

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// preview is a pool of a project without a daemon, in the state that a daemon would start with.
type preview struct {
	path      string
	template  *spec.Agent
	suspended bool     // by the file, so its check does not run
	running   []string // names of instances that run or may run

	demand    Demand
	checkedAt time.Time
}

// EnvironFunc returns the user and the environment of commands of a pool; see Fleet.
type EnvironFunc func(path string, template *spec.Agent) (*account.Account, []string, error)

// Preview returns the first actions of a daemon with a tree. It runs only the checks of pools, whose
// answers decide the actions. running is the content of the runtimes, and socket the path of the
// daemon's socket. The checks end with ctx.
func Preview(ctx context.Context, tree *spec.Tree, config fleet.Config, running []runtime.Observation, socket string,
	environ EnvironFunc,
) (Pass, error) {
	pools := previews(tree, running)
	runChecks(ctx, pools, socket, environ)
	if ctx.Err() != nil {
		return Pass{}, context.Cause(ctx)
	}
	laid := make(map[string][]string, len(pools))
	shown := []At{}
	var surplus []PassAction
	for _, p := range pools {
		laid[p.path] = p.instances()
		shown = append(shown, p.api())
		surplus = append(surplus, p.surplus()...)
	}
	round := newPass(reconcile.Preview(fleet.New(tree.Layout(laid), config), running, time.Now()), shown)
	round.Actions = append(round.Actions, surplus...)
	return round, nil
}

// previews returns the pools of a tree in the order of the file.
func previews(tree *spec.Tree, running []runtime.Observation) (pools []*preview) {
	f := fleet.New(tree.Minimal(), fleet.Config{})
	byPath := make(map[string]*preview)
	for _, path := range f.Order {
		if n := f.Nodes[path]; n != nil && n.Template != nil {
			p := &preview{path: path, template: n.Template, suspended: f.Suspended(path)}
			pools, byPath[path] = append(pools, p), p
		}
	}
	for _, o := range running {
		above, name := cut(o.Path)
		if p := byPath[above]; p != nil {
			p.running = append(p.running, name)
		}
	}
	return pools
}

// runChecks runs the checks of pools in parallel, as a daemon would, and returns when all have ended.
func runChecks(ctx context.Context, pools []*preview, socket string, environ EnvironFunc) {
	runner := NewRunner(fmt.Sprintf("preview by %d of %s", os.Getpid(), socket))
	var wg sync.WaitGroup
	for _, p := range pools {
		if !p.suspended {
			wg.Go(func() { p.check(ctx, runner, socket, environ) })
		}
	}
	wg.Wait()
}

func (p *preview) check(ctx context.Context, r *Runner, socket string, environOf EnvironFunc) {
	n, err := 1, error(nil)
	if p.template.Pool.Check != nil {
		var user *account.Account
		var env []string
		if user, env, err = environOf(p.path, p.template); err == nil {
			// The mark differs from the daemon's, since a daemon may start meanwhile.
			mark := fmt.Sprintf("preview by %d of %s %s", os.Getpid(), socket, p.path)
			n, err = r.Run(ctx, newCheck(p.template, user, append(env, environ(p.template, p.size())...), mark))
		}
	}
	p.demand, p.checkedAt = p.demand.Answered(n, err), time.Now()
}

// size returns the wanted number of instances. Before an answer of the check it assumes that the
// last daemon wanted the instances that run.
func (p *preview) size() int {
	if !p.demand.Known {
		return p.template.Pool.Clamp(len(p.running))
	}
	return p.demand.Size(p.template.Pool)
}

// instances returns the instances that the pool would have.
func (p *preview) instances() []string {
	names := p.template.Instances(p.size())
	if p.suspended {
		names = append(names, p.running...)
	}
	return names
}

// surplus returns the actions on instances that run and are not wanted.
func (p *preview) surplus() (all []PassAction) {
	if p.suspended {
		return nil
	}
	var members []Member
	for _, name := range p.template.Sorted(p.running) {
		members = append(members, Member{Name: name, Lives: true})
	}
	steps, _ := Plan(time.Now(), p.template.Instances(p.size()), members)
	for _, s := range steps {
		if s.Verb == BeginDrain {
			all = append(all, PassAction{Action: "drain", Path: p.path + "/" + s.Name, Reason: s.Why})
		}
	}
	return all
}

// api returns the pool as the API shows it.
func (p *preview) api() At {
	s := newInfo(p.template.Pool, p.size(), p.demand, p.checkedAt)
	s.Instances = len(p.running)
	return At{Path: p.path, Pool: *s}
}
