package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/mail"
)

// Mail delivers mail.
type Mail interface {
	Send(context.Context, mail.Post) (sent mail.Message, fresh bool, err error)
}

// Tell tells people which accounts are used up, each once until it is open again. They are asked nothing: the agents
// go on by themselves. After a restart of the daemon the key keeps the mail from being sent again.
func (m *Manager) Tell(ctx context.Context, to Mail) {
	for _, p := range m.untold() {
		_, _, err := to.Send(ctx, m.post(p))
		if err != nil && !errors.Is(err, mail.ErrInvalid) { // in other words, before the reset was known
			if ctx.Err() == nil {
				m.Logger.Warn("cannot tell people that an account is used up", "quota", p.Name, "error", err)
			}
			continue
		}
		m.mu.Lock()
		if now := m.pools[p.Name]; now != nil && now.Since.Equal(p.Since) {
			now.told = true
		}
		m.mu.Unlock()
	}
}

// untold returns the parked pools that people were not told of.
func (m *Manager) untold() (all []Pool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pools {
		if p.State == Parked && !p.told {
			all = append(all, *p)
		}
	}
	return all
}

// post returns what people are told of a pool.
func (m *Manager) post(p Pool) mail.Post {
	post := mail.Post{
		From: Sender + p.Name, To: mail.People, Key: p.Since.UTC().Format(time.RFC3339Nano),
		Subject: fmt.Sprintf("%.80s is used up until %s", p.Name, clock(p.Reset)),
	}
	if p.Reset.IsZero() {
		post.Subject = fmt.Sprintf("%.80s is used up; no reset is known", p.Name)
	}
	agents := "Its agents wait"
	if q := m.Agents.Fleet().quota(p.Name); q != nil && q.Next != "" {
		agents = "Its agents go on with " + q.Next + ", or wait if that is used up, too"
	}
	post.Body = fmt.Sprintf("%s: %s.\n\n%s. At %s one of them tries, and the others follow when it is served.\n"+
		"coppice quota ls shows who waits.\n", p.By, p.what(), agents, clock(p.Until))
	return post
}
