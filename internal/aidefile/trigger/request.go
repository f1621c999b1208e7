package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Launch returns the command of an agent with an Aidefile, and additions to its environment: where its files are, and
// the secrets in the environment of the daemon.
func (m *Manager) Launch(file *aidefile.Agent) (argv, env []string) {
	env = runner.Environ(file)
	for _, key := range file.File.Vault {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return runner.Argv("/proc/self/exe"), env
}

// LaunchFiles returns the files of the run of an agent that is about to start; nil if it has no Aidefile. Before, it
// counts what the run before has used, of which they remove what is known. The error is a supervisor.RetryError if that
// is not possible now.
func (m *Manager) LaunchFiles(ctx context.Context, path string) (*runtime.Files, error) {
	a := m.of(path)
	if a == nil || m.Files == nil {
		return nil, nil
	}
	a.counting.Lock()
	defer a.counting.Unlock()
	if err := m.countLast(ctx, path, a, true); err != nil {
		return nil, err
	}
	a.mu.Lock()
	q := a.request
	q.Aidefile, q.Settings = a.file.Path, a.file.Settings
	a.mu.Unlock()
	if err := m.history(ctx, path, &q); err != nil {
		return nil, &supervisor.RetryError{At: time.Now().Add(countAgain), Err: err}
	}
	text, err := q.Text()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.launched, a.known, a.lost = true, callfile.Records{}, false
	a.mu.Unlock()
	return &runtime.Files{
		Write: map[string][]byte{runner.RequestName: text}, Remove: []string{callfile.Name},
	}, nil
}

// savedRequest is the request of the last run of an agent in the store, from which the next controller takes it,
// whichever machine that is. The rest of a request follows from the Aidefile and the ledger.
type savedRequest struct {
	Trigger string    `json:"trigger"`
	Task    []byte    `json:"task"` // any text, which is not to become longer
	Issue   int       `json:"issue,omitempty"`
	Fired   time.Time `json:"fired"`
	Chain   time.Time `json:"chain"`
}

const (
	requestSuffix = "/request"
	// maxSaved bounds a savedRequest in bytes; a task of MaxTask bytes fits. One event may also store a queue.
	maxSaved = 400 << 10
	maxQueue = store.MaxApply - maxSaved - 100<<10
)

func requestKey(path string) string { return storePrefix + "/" + store.PathKey(path) + requestSuffix }

// parseSaved parses a request in the store.
func parseSaved(text []byte) (q runner.RunRequest, err error) {
	var s savedRequest
	if err := json.Unmarshal(text, &s); err != nil {
		return q, err
	}
	return runner.RunRequest{
		Trigger: s.Trigger, Task: string(s.Task), Issue: s.Issue, Fired: s.Fired, Chain: s.Chain,
	}, nil
}

// saveRequest returns the operation that stores a request. One that is too large for the store is removed from there:
// another controller then does not know it.
func saveRequest(path string, q runner.RunRequest) store.Op {
	value, err := json.Marshal(savedRequest{q.Trigger, []byte(q.Task), q.Issue, q.Fired, q.Chain})
	if err != nil || len(value) > maxSaved {
		return store.Op{Kind: store.Delete, Key: requestKey(path)}
	}
	return store.Op{Kind: store.Put, Key: requestKey(path), Value: value}
}

// pending returns the request of the run of an agent that is in progress or pending; ok is false if it is not known.
func (m *Manager) pending(path string) (q runner.RunRequest, ok bool) {
	m.mu.Lock()
	q, ok = m.requests[requestKey(path)]
	m.mu.Unlock()
	if ok || m.Files == nil {
		return q, ok
	}
	// A daemon of an earlier version, on one machine, has it only in this file.
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	text, err := m.Files.ReadFile(ctx, path, runner.RequestName)
	if err == nil {
		q, err = runner.Parse(text)
	}
	return q, err == nil
}

// forgetRequests removes the requests of agents that are gone from the store: they may be private. The caller holds mu.
func (m *Manager) forgetRequests() {
	current := make(map[string]bool, len(m.byPath))
	for path := range m.byPath {
		current[requestKey(path)] = true
	}
	var gone []string
	for key := range m.requests {
		if !current[key] {
			delete(m.requests, key)
			gone = append(gone, key)
		}
	}
	if len(gone) == 0 {
		return
	}
	m.Go(func(ctx context.Context) {
		for _, key := range gone {
			if err := m.removeRequest(ctx, key); err != nil {
				m.Logger.Warn("cannot remove the request of an agent that is gone", "key", key, "error", err)
			}
		}
	})
}

// removeRequest removes a request from the store, unless there is another one since: the agent may have come back.
func (m *Manager) removeRequest(ctx context.Context, key string) error {
	r, err := store.Get(ctx, m.Store, key)
	if err != nil || r.Rev == 0 {
		return err
	}
	m.mu.Lock()
	_, back := m.requests[key]
	m.mu.Unlock()
	if back {
		return nil
	}
	_, err = m.Store.Apply(ctx, store.Fence{}, []store.Cond{{Key: key, Rev: r.Rev}},
		[]store.Op{{Kind: store.Delete, Key: key}})
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
