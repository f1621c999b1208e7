package quota

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Patience bounds the time that a command line may take to end after it has reported that its account does not serve
// it: its last words say more.
const Patience = time.Second

// Refused takes note that the account of an agent that goes on does not serve it.
func (m *Manager) Refused(path string, r agentcli.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(m.used(path))
	if !m.Agents.Fleet().exists(p.Name) {
		return
	}
	before := *p
	if p.close(path, r, time.Now(), m.random); *p != before {
		p.Live = before.State == Open || before.Canary == path // others have ended with it
		m.changed(before, p)
	}
}

// Answered takes note that the model has answered an incarnation that began at a time.
func (m *Manager) Answered(path string, began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(m.used(path))
	before := *p
	if !began.Before(p.CanaryAt) && p.served(path) {
		m.changed(before, p)
	}
}
