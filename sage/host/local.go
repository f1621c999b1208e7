package host

import (
	"context"
	"io"
	"maps"
	"sync"

	"github.com/coppice-dev/coppice/supervisor"
)

// NewMemory returns Beliefs that are kept in memory.
func NewMemory() Beliefs { return &memory{of: map[string]map[string]string{}} }

type memory struct {
	mu sync.Mutex
	of map[string]map[string]string
}

func (m *memory) OpenBeliefs(_ context.Context, a Agent, _ []string) (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.of[a.Path]), nil
}

func (m *memory) SaveBeliefs(_ context.Context, a Agent, values map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[a.Path] == nil {
		m.of[a.Path] = map[string]string{}
	}
	maps.Copy(m.of[a.Path], values)
	return nil
}

func (m *memory) CloseBeliefs(Agent) {}

// NewOutput returns the Output for a program that runs its own supervisors. Lines go to two
// writers, and a started agent is reported to its supervisor. Errors of the writers are ignored,
// since an agent cannot act on them.
func NewOutput(out, err io.Writer) Output { return &output{out: out, err: err} }

type output struct {
	mu       sync.Mutex
	out, err io.Writer
}

func (o *output) Print(_ string, stderr bool, line string) {
	to := o.out
	if stderr {
		to = o.err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = io.WriteString(to, line+"\n")
}

func (o *output) Started(ctx context.Context, _ Agent) { supervisor.Ready(ctx) }
