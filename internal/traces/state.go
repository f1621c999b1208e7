package traces

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// stateKey is the key of the state in the store.
const stateKey = "traces"

// state says up to where the log is exported. It is stored, so that the next daemon goes on there, with the same IDs.
type state struct {
	// Numbering is new when the numbers of incarnations begin at 1 again; see spanid.Incarnation.
	Numbering string `json:"numbering"`
	// Epoch names the log in which After counts.
	Epoch string `json:"epoch,omitempty"`
	// After is the last event whose span was exported or dropped; nil while nothing is exported.
	After *uint64 `json:"after,omitempty"`
	// Since is the last event before those about incarnations that ran at After.
	Since uint64 `json:"since,omitempty"`
}

// Open reads the state, before any agent is started. before is the last event of earlier daemons.
func (m *Manager) Open(ctx context.Context, before uint64) error {
	if m == nil {
		return nil
	}
	r, err := store.Get(ctx, m.Store, stateKey)
	if err != nil {
		return fmt.Errorf("reading up to where traces are exported: %w", err)
	}
	var s state
	if r.Key != "" {
		if err := json.Unmarshal(r.Value, &s); err != nil {
			m.Logger.Warn("cannot read up to where traces are exported; going on with what happens now", "error", err)
			s = state{}
		}
	}
	m.saved = r.Value
	switch on := m.Settings().IsSet(); {
	case on && m.Once:
		m.set(ctx, state{Numbering: rand.Text(), Epoch: m.Epoch(), After: &before, Since: before})
	case on:
		m.begin(ctx, s, before)
	case s.Numbering != "":
		s.After = nil
		if m.Once {
			s.Numbering = rand.Text()
		}
		m.set(ctx, s)
	}
	return nil
}

// lookBack bounds how many events are read again, to know the incarnations that run.
const lookBack = 100_000

// begin exports what happens after an event, unless an earlier daemon has begun in the same log: that is continued.
func (m *Manager) begin(ctx context.Context, s state, after uint64) {
	if s.Numbering == "" || s.Epoch != m.Epoch() {
		s = state{Numbering: rand.Text(), Epoch: m.Epoch()}
	}
	if s.After == nil || *s.After > after {
		s.After, s.Since = &after, 0
	}
	s.Since = max(s.Since, *s.After-min(*s.After, lookBack))
	m.set(ctx, s)
}

// get returns the state.
func (m *Manager) get() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// saveTime bounds a write of the state.
const saveTime = 5 * time.Second

// set changes the state, and stores it. One that the store does not take is stored with the next change.
func (m *Manager) set(ctx context.Context, s state) {
	m.mu.Lock()
	m.state = s
	m.mu.Unlock()
	value, err := json.Marshal(s)
	if err != nil || bytes.Equal(value, m.saved) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime) // also at the end
	defer cancel()
	op := store.Op{Kind: store.Put, Key: stateKey, Value: value}
	if _, err := m.Store.Apply(ctx, store.Fence{}, nil, []store.Op{op}); err != nil {
		m.Logger.Debug("cannot write up to where traces are exported", "error", err)
		return
	}
	m.saved = value
}
