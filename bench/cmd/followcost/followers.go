//go:build linux

package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/calls"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// prepare returns the home of agents that have begun, before any session has, and what follows them.
func prepare(o options, home string) (*house, followers, error) {
	h, err := newHouse(o, home)
	if err != nil {
		return nil, nil, err
	}
	for i := range o.agents {
		if err := os.MkdirAll(h.work(i), 0o700); err != nil {
			return nil, nil, err
		}
	}
	background := newBackground(o.agents)
	switch o.impl {
	case "raw-walk":
		return h, &walker{background, h}, nil
	case "coppice-calls":
		return h, newManager(background, h, o.agents), nil
	}
	return nil, nil, fmt.Errorf("unknown implementation %q", o.impl)
}

// background runs functions until the end of a measurement. Every follower has it.
type background struct {
	ctx     context.Context
	cancel  context.CancelFunc
	working sync.WaitGroup
	agents  chan int
}

func newBackground(agents int) *background {
	b := &background{agents: make(chan int, agents)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

func (b *background) found() <-chan int { return b.agents }

func (b *background) run(f func(context.Context)) { b.working.Go(func() { f(b.ctx) }) }

func (b *background) end() {
	b.cancel()
	b.working.Wait()
}

// walker looks at all files, as often as the followers of Coppice do that have found nothing for a while.
type walker struct {
	*background
	house *house
}

const walkPause = 2 * time.Second

func (w *walker) follow() {
	w.run(func(ctx context.Context) {
		next := time.NewTicker(walkPause)
		defer next.Stop()
		known := map[string]bool{}
		for {
			w.walk(known)
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (w *walker) walk(known map[string]bool) {
	filepath.WalkDir(w.house.root(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if _, err := d.Info(); err != nil {
			return nil
		}
		var agent int
		if i := strings.Index(path, "agent-"); i >= 0 && !known[path] {
			known[path] = true
			if _, err := fmt.Sscanf(path[i:], "agent-%d-", &agent); err == nil {
				w.agents <- agent
			}
		}
		return nil
	})
}

// manager follows agents as the daemon does.
type manager struct {
	*background
	calls  *calls.Manager
	house  *house
	number int
}

func newManager(b *background, h *house, agents int) *manager {
	m := &manager{background: b, house: h, number: agents}
	m.calls = calls.New(calls.Options{
		Logger: slog.New(slog.DiscardHandler), Append: func(event.Event) {}, Quotas: quotas{}, Go: b.run,
		Runs: func(string) callfile.Records { return callfile.Records{} },
		Progress: func(_ string, agent uint64, r agentcli.Record) {
			if r.Tokens != nil {
				b.agents <- int(agent)
			}
		},
	})
	for i := range agents {
		m.calls.Launch(caller(i), m.agent(i))
	}
	return m
}

func caller(i int) token.Caller {
	return token.Caller{Path: fmt.Sprint("bench/a", i), Incarnation: uint64(i)}
}

func (m *manager) agent(i int) *spec.Agent {
	return &spec.Agent{Command: []string{string(m.house.cli)}, Dir: m.house.work(i), Terminal: true}
}

func (m *manager) follow() {
	for i := range m.number {
		time.Sleep(walkPause / time.Duration(m.number)) // agents do not start all at once
		m.calls.Follow(caller(i), process{env: []string{"HOME=" + m.house.home}}, m.agent(i))
	}
}

// quotas is no account.
type quotas struct{}

func (quotas) Refused(string, agentcli.Record) {}
func (quotas) Told(string, []agentcli.Window)  {}
func (quotas) Answered(string, time.Time)      {}

// process is an idle agent with a terminal.
type process struct{ env []string }

func (p process) Session() runtime.Session        { return session{} }
func (p process) Environ() agent.Env              { return agent.Env{Vars: p.env} }
func (p process) Fail(error, syscall.Signal) bool { return false }

type session struct{ runtime.Session }

func (session) Done() <-chan struct{}        { return nil }
func (session) Observe() runtime.Observation { return runtime.Observation{Life: runtime.Alive} }
