package pool

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Preview is a pool of a project that has no daemon, as a daemon would have it.
type Preview struct {
	Path      string
	Template  *spec.Agent
	Suspended bool     // by the file: its check does not run
	Running   []string // names of instances that run, or may

	demand Demand
	at     time.Time
}

// EnvironFunc returns the user and the environment of commands of a pool; see Fleet.
type EnvironFunc func(path string, template *spec.Agent) (*account.Account, []string, error)

// RunChecks runs the checks of pools in parallel, as a daemon would, and returns when all have ended.
func RunChecks(ctx context.Context, pools []*Preview, socket string, environ EnvironFunc) {
	runner := NewRunner(fmt.Sprintf("preview by %d of %s", os.Getpid(), socket))
	var wg sync.WaitGroup
	for _, p := range pools {
		if !p.Suspended {
			wg.Go(func() { p.check(ctx, runner, socket, environ) })
		}
	}
	wg.Wait()
}

func (p *Preview) check(ctx context.Context, r *Runner, socket string, environOf EnvironFunc) {
	n, err := 1, error(nil)
	if p.Template.Pool.Check != nil {
		var user *account.Account
		var env []string
		if user, env, err = environOf(p.Path, p.Template); err == nil {
			mark := fmt.Sprintf("preview by %d of %s %s", os.Getpid(), socket, p.Path) // a daemon may start meanwhile
			n, err = r.Run(ctx, newCheck(p.Template, user, append(env, environ(p.Template, p.size())...), mark))
		}
	}
	p.demand, p.at = p.demand.Answered(n, err), time.Now()
}

// size returns how many instances there should be. While the check has not answered, what
// runs is taken for what the last daemon knew.
func (p *Preview) size() int {
	if !p.demand.Known {
		return p.Template.Pool.Clamp(len(p.Running))
	}
	return p.demand.Size(p.Template.Pool)
}

// Instances returns the instances that the pool would have.
func (p *Preview) Instances() []string {
	names := p.Template.Instances(p.size())
	if p.Suspended {
		names = append(names, p.Running...)
	}
	return names
}

// Surplus returns what becomes of instances that run and are not wanted.
func (p *Preview) Surplus() (all []api.RoundAction) {
	if p.Suspended {
		return nil
	}
	var members []Member
	for _, name := range p.Template.Sorted(p.Running) {
		members = append(members, Member{Name: name, Lives: true})
	}
	steps, _ := Plan(time.Now(), p.Template.Instances(p.size()), members)
	for _, s := range steps {
		if s.Verb == BeginDrain {
			all = append(all, api.RoundAction{Action: "drain", Path: p.Path + "/" + s.Name, Reason: s.Why})
		}
	}
	return all
}

// API returns the pool as the API shows it.
func (p *Preview) API() api.PoolAt {
	s := api.Pool{
		Size: p.size(), Instances: len(p.Running), Min: p.Template.Pool.Min, Max: p.Template.Pool.Ceiling(),
		Answer: p.demand.Asked, Answered: p.demand.Known,
	}
	if p.Template.Pool.Check != nil && !p.at.IsZero() {
		s.CheckedAt = &p.at
	}
	if p.demand.Problem != nil {
		s.Error = p.demand.Problem.Error()
	}
	return api.PoolAt{Path: p.Path, Pool: s}
}
