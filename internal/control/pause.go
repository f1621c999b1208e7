package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/supervisor"
)

// The answers to the question about a paused supervisor.
const (
	answerResume = string(Resume)
	answerStop   = string(Stop)
)

// AskAboutPauses asks people what to do about those of some supervisors that their limit has paused: one question for
// as long as the pause lasts. about reports whether a sender is that of such a question. It reports whether a pause
// lasts, or may last.
func (m *Manager) AskAboutPauses(
	ctx context.Context, desk question.Desk, paths []string, about func(sender string) bool,
) bool {
	paused := map[string]question.Matter{}
	for _, path := range paths {
		if text, known := m.pause(path); text != "" || !known {
			paused[path] = question.Matter{Text: text, Options: []string{answerResume, answerStop}, Unsure: !known}
		}
	}
	return question.Matters{
		Lasting: paused, Logger: m.Logger, About: about,
		Answer: func(ctx context.Context, path, answer string) error {
			_, err := m.Act(ctx, path, Action(answer))
			m.Reconcile.Requeue()
			return err
		},
	}.Ask(ctx, desk, api.ErrStopping)
}

// pause returns what is asked about a supervisor that is paused now and holds
// something, "" for any other, and whether that is known: not while it is started.
func (m *Manager) pause(path string) (text string, known bool) {
	sup := m.Tree.Find(path)
	if sup == nil {
		return "", m.staysDown(path)
	}
	self, err := sup.SaveSelf()
	if err != nil || !self.Paused {
		return "", err == nil
	}
	children, err := sup.Children()
	for _, i := range children {
		if i.State == supervisor.Paused {
			return fmt.Sprintf("%s is paused: %s ended with %v (limit: %v). Resume it, or stop what is in it?", path,
				i.ID, i.LastExit, i.Limit), true
		}
	}
	return "", err == nil
}

// staysDown reports whether a supervisor that does not run is held down.
func (m *Manager) staysDown(path string) bool {
	i := strings.LastIndexByte(path, '/')
	above := m.Tree.Find(path[:max(0, i)])
	if above == nil {
		return false
	}
	id := path[i+1:]
	info, err := above.Child(id)
	return err == nil && (info.State == supervisor.Suspended || reconcile.IsHeld(info.State))
}
