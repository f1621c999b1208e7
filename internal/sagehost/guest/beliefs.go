package guest

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/internal/value"
)

// beliefs are those of an agent, and of the agents that it has summoned. The daemon has them. While
// there is none, calls wait for the next one.
type beliefs struct {
	client *api.Client

	mu       sync.Mutex
	summoned map[string][]string // declared beliefs by the path below the agent
}

// newBeliefs returns the beliefs of an incarnation, which acts as any other agent.
func newBeliefs(f *server.Function) *beliefs {
	var socket, secret string
	for _, kv := range f.Env() {
		switch name, v, _ := strings.Cut(kv, "="); name {
		case proc.EnvSocket:
			socket = v
		case proc.EnvToken:
			secret = v
		}
	}
	return &beliefs{client: api.DialAgent(socket, secret), summoned: map[string][]string{}}
}

func (b *beliefs) close() { b.client.Close() }

// forever is the time to wait for a daemon: until the caller gives up.
const forever time.Duration = math.MaxInt64 / 2

// open returns the stored beliefs of the agent, or of the summoned one at a path below it.
func (b *beliefs) open(ctx context.Context, below string, names []string) (map[string]string, error) {
	var list []belief.Belief
	err := api.Retry(ctx, forever, func() (err error) {
		if below == "" {
			list, err = belief.ReadOwn.Call(ctx, b.client, belief.OwnRequest{Names: names})
			return err
		}
		list, err = b.openSummoned(ctx, below, names)
		return err
	})
	if err != nil {
		return nil, err
	}
	return belief.KeptOf(list), nil
}

func (b *beliefs) openSummoned(ctx context.Context, below string, names []string) ([]belief.Belief, error) {
	b.mu.Lock()
	b.summoned[below] = names
	b.mu.Unlock()
	return belief.OpenSummoned.Call(ctx, b.client, belief.SummonedRequest{Agent: below, Names: names})
}

// save stores values. It is repeated if the daemon has ended before it has answered: the values are
// the same then.
func (b *beliefs) save(ctx context.Context, below string, values map[string]string) error {
	set, err := value.ParseAll(values)
	if err != nil {
		return err
	}
	step := belief.OwnChange{Summoned: below, Set: set}
	return api.Retry(ctx, forever, func() error {
		_, err := belief.ChangeOwn.Call(ctx, b.client, step)
		b.mu.Lock()
		names, summoned := b.summoned[below]
		b.mu.Unlock()
		if !summoned || !errors.Is(err, token.ErrStale) {
			return err
		}
		// Another daemon does not know of it.
		if _, err := b.openSummoned(ctx, below, names); err != nil {
			return err
		}
		_, err = belief.ChangeOwn.Call(ctx, b.client, step)
		return err
	})
}
