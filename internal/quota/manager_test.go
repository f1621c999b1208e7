package quota

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// declared are agents without supervisors.
type declared struct{ f Fleet }

func (d *declared) Fleet() Fleet { return d.f }

func (d *declared) Locate(string) (*supervisor.Supervisor, string, error) {
	return nil, "", supervisor.ErrNotFound
}

// harness is a Manager with two accounts of claude and two agents. Its background functions run at once.
type harness struct {
	*Manager
	t     *testing.T
	fleet *declared
	log   *event.Log
}

func newHarness(t *testing.T, s store.Store) *harness {
	t.Helper()
	log, err := event.Open(event.Config{Store: s, Epoch: func() string { return "e" }, Logger: slog.Default()})
	if err != nil {
		t.Fatal(err)
	}
	claude := &spec.Agent{Command: []string{"claude"}} // which is not asked about
	h := &harness{t: t, log: log, fleet: &declared{Fleet{
		Agents: map[string]*spec.Agent{"t/a": claude, "t/b": claude},
		Quotas: []spec.Quota{{Name: "main", CLI: agentcli.Claude, Next: "spare"}, {Name: "spare", CLI: agentcli.Claude, Env: map[string]string{"KEY": "2"}}},
	}}}
	h.Manager = New(Options{
		Store: s, Log: log, Logger: slog.Default(), Agents: h.fleet, Changed: func() {}, Go: func(do func(context.Context)) {
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(time.Millisecond, cancel).Stop() // those that wait for a time
			go do(ctx)
		},
	})
	if err := h.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// starts expects an agent to start with an account.
func (h *harness) starts(path, account string) {
	h.t.Helper()
	if err := h.Admit(h.t.Context(), path); err != nil || h.AccountOf(path) != account {
		h.t.Fatalf("%s: %v, with %s, expected %s", path, err, h.AccountOf(path), account)
	}
}

// limit ends an agent with a usage limit. If it goes on with another account at once, that is next.
func (h *harness) limit(path, next string) {
	h.t.Helper()
	err := h.Ended(path, met(outcome.UsageLimit, time.Now().Add(time.Hour)))
	retry, ok := errors.AsType[*supervisor.RetryError](err)
	wait, _ := errors.AsType[*WaitError](err)
	if !ok || wait.Next != next || (next != "") != retry.At.Before(time.Now().Add(time.Second)) {
		h.t.Fatalf("%s: %v, expected %q", path, err, next)
	}
}

// Which account an agent uses is known to the next daemon, and to nobody once it is not declared any longer.
func TestUses(t *testing.T) {
	s := memory.New()
	h := newHarness(t, s)
	h.starts("t/a", "main")
	h.starts("t/b", "main")
	h.limit("t/a", "spare")
	h.starts("t/a", "spare")
	if h.AccountOf("t/b") != "main" || !strings.Contains(h.Explain("t/a"), "spare instead of main") {
		t.Errorf("%s, %s", h.AccountOf("t/b"), h.Explain("t/a"))
	}
	if err := h.log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	h = newHarness(t, s)
	if h.AccountOf("t/a") != "spare" || h.AccountOf("t/b") != "main" || h.AccountOf("t/gone") != "" {
		t.Errorf("%s, %s", h.AccountOf("t/a"), h.AccountOf("t/b"))
	}
	h.limit("t/b", "spare")
	h.limit("t/a", "")
	if all := h.All(); len(all) != 2 || len(all[0].Waiting) != 1 || !slices.Equal(all[1].Agents, []string{"t/a"}) {
		t.Errorf("%+v", all)
	}
	if err := h.Resume("main"); err != nil {
		t.Fatal(err)
	}
	h.starts("t/a", "main")
	if err := h.Admit(t.Context(), "t/b"); err == nil {
		t.Error("t/b starts while t/a tries main, and spare is closed")
	}
	h.fleet.f.Quotas = h.fleet.f.Quotas[:1]
	h.fleet.f.Quotas[0].Next = ""
	delete(h.fleet.f.Agents, "t/b")
	h.Apply()
	if all := h.All(); len(all) != 1 || all[0].State != Probing || len(all[0].Waiting) != 0 {
		t.Errorf("%+v", all)
	}
	h.fleet.f.Quotas = nil
	h.Apply()
	h.limit("t/a", "claude") // its account is gone
	h.starts("t/a", "claude")
	if all := h.All(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// The variables of an account replace those of the agent, and no error has a value.
func TestEnviron(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("KEY=file\nMORE=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, memory.New())
	env := []string{"A=1", "KEY=own", "COPPICE_AGENT=t/a"}
	h.fleet.f.Quotas[0].EnvFiles = []string{file}
	h.starts("t/a", "main")
	if got, err := h.Environ("t/a", env); err != nil || !slices.Equal(got, []string{"A=1", "COPPICE_AGENT=t/a", "COPPICE_ACCOUNT=main", "KEY=file", "MORE=x"}) {
		t.Errorf("%q, %v", got, err)
	}
	h.fleet.f.Quotas[0].Env = map[string]string{"KEY": "env"}
	if got, _ := h.Environ("t/a", env); !slices.Contains(got, "KEY=env") || !slices.Equal(env, []string{"A=1", "KEY=own", "COPPICE_AGENT=t/a"}) {
		t.Errorf("%q, %q", got, env)
	}
	if err := os.WriteFile(file, []byte("KEY='sk-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Environ("t/a", env); err == nil || !strings.HasPrefix(err.Error(), "quota main: env_file: ") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	h.fleet.f.Quotas = nil
	h.Apply()
	h.starts("t/a", "claude")
	if got, err := h.Environ("t/a", env); err != nil || !slices.Equal(got, env) {
		t.Errorf("%q, %v", got, err)
	}
}
