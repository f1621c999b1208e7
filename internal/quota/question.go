package quota

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/question"
)

// Sender is in front of the name of a pool in its question.
const Sender = "quota/"

// The answers to the question about a pool.
const (
	answerResume = "resume"
	answerLeave  = "leave"
)

// Ask asks one question about each pool that is stopped, and carries out the answers.
func (m *Manager) Ask(ctx context.Context, desk question.Desk) {
	stopped := map[string]question.Matter{}
	for _, p := range m.Pools() {
		if p.State != Stopped {
			continue
		}
		agents := "wait"
		if p.Next != "" {
			agents = "go on with " + p.Next + " while that serves"
		}
		stopped[Sender+p.Name] = question.Matter{
			Since: p.Since, Options: []string{answerResume, answerLeave},
			Text: fmt.Sprintf("%s: %s: %s. Its agents %s. "+
				"When that is mended, answer %s, and one of them tries first.",
				p.Name, p.Obstacle, p.Reason, agents, answerResume),
		}
	}
	question.Matters{
		Lasting: stopped, Logger: m.Logger,
		About: func(sender string) bool { return strings.HasPrefix(sender, Sender) },
		Answer: func(_ context.Context, sender, answer string) error {
			if answer != answerResume {
				return nil
			}
			return m.Resume(strings.TrimPrefix(sender, Sender))
		},
	}.Ask(ctx, desk, nil)
}
