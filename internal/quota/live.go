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
	m.heard(p.Name, time.Now())
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
	m.heard(p.Name, time.Now())
	before := *p
	if !began.Before(p.CanaryAt) && p.served(path) {
		m.changed(before, p)
	}
}

// Told takes note of what a command line tells of the limits of its account while it runs.
func (m *Manager) Told(path string, windows []agentcli.Window) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	l := m.heard(m.used(path), now)
	for _, w := range windows {
		l.tell(w, now)
	}
}
